# Direct I/O on devices that consist of other devices: their requests have copies or parts of the bios.
. /work/lib.sh

modprobe -a loop ext4 xfs dm-mod raid0 raid1 dm-multipath dm-service-time
modprobe null_blk nr_devices=0
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
for n in 0 1; do
    disk=/sys/kernel/config/nullb/nullb$n
    mkdir "$disk"
    echo 1 >"$disk/memory_backed"
    echo 512 >"$disk/size"
    echo 1 >"$disk/power"
done
disks=()
for n in $(seq 8); do
    truncate -s 176M "/var/tmp/disk$n"
    disks+=("$(losetup --find --show "/var/tmp/disk$n")")
done
echo 64 >"/sys/block/${disks[0]##*/}/queue/max_sectors_kb"
half=$((176 << 11))
# Two concatenated disks; one disk on another; mirrors; and a device mapper on MD.
dmsetup create linear <<<"0 $half linear ${disks[0]} 0
$half $half linear ${disks[1]} 0"
mdadm --create /dev/md0 --run --level=0 --raid-devices=2 "${disks[2]}" "${disks[3]}" 2>/dev/null
mdadm --create /dev/md1 --run --level=1 --raid-devices=2 --assume-clean --bitmap=none --metadata=1.2 "${disks[4]}" "${disks[5]}" 2>/dev/null
mdadm --create /dev/md2 --run --level=0 --raid-devices=2 "${disks[6]}" "${disks[7]}" 2>/dev/null
dmsetup create stacked <<<"0 $((80 << 11)) linear /dev/md2 0"
# Devices that complete requests themselves, and pass the pages on to a disk.
ln -s "$(losetup --direct-io=on --sizelimit=352M --find --show /dev/nullb0)" /dev/handing
dmsetup create multipath <<<"0 $half multipath 0 0 1 1 service-time 0 1 1 /dev/nullb1 1"
dmsetup mknodes

features=()
[[ $(uname -r) != 5.10* ]] || features=(-i nrext64=0)
for device in mapper/linear md0 md1 mapper/stacked handing mapper/multipath; do
    name=${device##*/}
    mkdir -p "/mnt/$name"
    case $name in
    md0 | handing) mkfs.xfs -q -f "${features[@]}" "/dev/$name" && mount "/dev/$name" "/mnt/$name" ;;
    *) mkfs.ext4 -q "/dev/$device" && mount -o noinit_itable "/dev/$device" "/mnt/$name" ;;
    esac
    # Each block is written first; otherwise the kernel clears the rest of it.
    for bs in 4096 98304 1048576; do head -c 3M /dev/zero >"/mnt/$name/$bs"; done
    head -c 64k /dev/zero >"/mnt/$name/512"
    head -c 16M /dev/zero >"/mnt/$name/16777216"
done
sync

start_recorder --levels block --granularity 1s,1m
for name in linear md0 md1 stacked handing multipath; do
    jobs=()
    for bs in 512 4096 98304 1048576 16777216; do
        file=/mnt/$name/$bs
        engine=psync
        [ $bs != 4096 ] || engine=io_uring
        jobs+=(--name="$bs" --stonewall --filename="$file" --rw=write --bs=$bs --size="$(stat -c %s "$file")" --ioengine=$engine --iodepth=8)
        stat -c '%n %s' "$file" >>"$OUT/sizes"
    done
    fio --direct=1 --overwrite=1 --fallocate=none --output=/dev/null "${jobs[@]}"
    for bs in 512 4096 98304 1048576 16777216; do
        dd if="/mnt/$name/$bs" of=/dev/null bs=$bs iflag=direct status=none
    done
    # Also through the page cache.
    head -c 4M /dev/zero >"/mnt/$name/buffered"
    sync "/mnt/$name/buffered"
done
sync
stop_recorder INT
keep_store
