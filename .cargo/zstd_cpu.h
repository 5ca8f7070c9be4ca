/* Included before every C file (config.toml), for zstd, which asks the processor whether it has BMI2 for each context that it makes.
 * It asks by CPUID, which traps in a virtual machine: 16 us. Parquet's reader and writer make two contexts for each column.
 * The compiler's library asks once, so this stands in place of zstd's own lib/common/cpu.h. */
#if defined(__x86_64__) && !defined(__ASSEMBLER__)
#define ZSTD_COMMON_CPU_H

typedef int ZSTD_cpuid_t;

static inline __attribute__((unused)) ZSTD_cpuid_t ZSTD_cpuid(void) { return 0; }

static inline __attribute__((unused)) int ZSTD_cpuid_bmi1(ZSTD_cpuid_t none)
{
    (void)none;
    return __builtin_cpu_supports("bmi") != 0;
}

static inline __attribute__((unused)) int ZSTD_cpuid_bmi2(ZSTD_cpuid_t none)
{
    (void)none;
    return __builtin_cpu_supports("bmi2") != 0;
}
#endif
