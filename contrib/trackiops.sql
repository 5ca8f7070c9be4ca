-- Views and macros over the Parquet of a TrackIOps store, for DuckDB 1.4 or newer:
--
--   SET VARIABLE trackiops_store = '/var/lib/trackiops';
--   .read trackiops.sql
--   SELECT path, sum(read_bytes) AS read_bytes FROM rollup_1m GROUP BY path ORDER BY read_bytes DESC LIMIT 20;
--
-- trackiops_store is a store, or a directory or prefix of object storage (s3://bucket/nfs) with stores below it. The default is
-- /var/lib/trackiops. Everything here is temporary: it belongs to the session. Run the file again after changing trackiops_store.
--
-- Views: rollup_1s, rollup_10s, rollup_1m, rollup_1h; ops_... and health_... of the same windows; requests; granularities.
-- A view of what the store does not have fails when you query it. For other granularities there are rollup('5s'), ops('5s') and
-- health('5s'). In a directory of stores a view has only those stores that have its granularity.
-- docs/reference/parquet.md of TrackIOps describes the columns. Write "user" in quotes, because `user` alone is you. A filter on `date` skips
-- files without opening them.
-- Windows that are still in a journal are not in Parquet yet: only `trackiops query` and `trackiops export` have them.

SET VARIABLE trackiops_store = rtrim(coalesce(getvariable('trackiops_store'), '/var/lib/trackiops'), '/');

-- What there is: names of views. DuckDB takes one `**` in a glob.
SET VARIABLE trackiops_views = (
    SELECT coalesce(list(DISTINCT view), error(format(
        'no Parquet below {}: SET VARIABLE trackiops_store to a store that you may read; a new store has Parquet after its first rotation',
        getvariable('trackiops_store')
    )))
    FROM (
        SELECT coalesce(
            nullif(regexp_replace(file, '^.*/(rollup|ops|health)/granularity=([^/]+)/date=[^/]+/[^/]+$', '\1_\2'), file),
            nullif(regexp_replace(file, '^.*/(requests)/date=[^/]+/[^/]+$', '\1'), file)
        ) AS view
        FROM glob(getvariable('trackiops_store') || '/**/*.parquet')
    )
);

-- The granularities of each dataset, shortest first.
--   FROM granularities;
CREATE OR REPLACE TEMP VIEW granularities AS
    SELECT split_part(view, '_', 1) AS dataset, split_part(view, '_', 2) AS granularity
    FROM (SELECT unnest(getvariable('trackiops_views')) AS view) WHERE view != 'requests'
    ORDER BY dataset, granularity::INTERVAL;

-- The Parquet in directories of this name, with their dates. DuckDB would take a directory above the store, such as host=a, for the column
-- of that name. Only files that a filter on `date` wants are opened, as with its own partitions.
CREATE OR REPLACE TEMP MACRO trackiops_parquet(name) AS TABLE
    SELECT * EXCLUDE (filename), regexp_extract(filename, '/date=([0-9-]+)/[^/]+$', 1)::DATE AS date
    FROM read_parquet(getvariable('trackiops_store') || '/**/' || name || '/date=*/*.parquet', hive_partitioning = false, filename = true);

-- What files did, in windows of a length: one row per file, user, cgroup and window, or several, which add up.
--   SELECT path, sum(read_bytes + write_bytes) AS bytes FROM rollup('1m') GROUP BY path ORDER BY bytes DESC LIMIT 5;
CREATE OR REPLACE TEMP MACRO rollup(granularity) AS TABLE
    SELECT *, granularity AS granularity FROM trackiops_parquet('rollup/granularity=' || granularity);

-- Operations of the NFS protocol by mount, in windows of a length, and what TCP knows of connections in rows of the operation (connection).
--   SELECT mount, op, sum(requests) AS requests, sum(errors) AS errors FROM ops('1m') GROUP BY ALL ORDER BY requests DESC;
--   SELECT transport, sum(tcp_rtt_us_sum) / sum(tcp_readings) AS rtt_us, sum(tcp_retrans) AS retransmitted FROM ops('1m')
--   WHERE op = '(connection)' GROUP BY transport;
CREATE OR REPLACE TEMP MACRO ops(granularity) AS TABLE
    SELECT *, granularity AS granularity FROM trackiops_parquet('ops/granularity=' || granularity);

-- The recorder's own account, in windows of a length: what was recorded when, what was lost, what was pending.
--   SELECT host, sum(covered_ms) / 1000 AS recorded_s, sum(lost) AS lost, sum(missed) AS missed FROM health('1m') GROUP BY host;
CREATE OR REPLACE TEMP MACRO health(granularity) AS TABLE
    SELECT *, granularity AS granularity FROM trackiops_parquet('health/granularity=' || granularity);

-- The SQL of a view, or what says why there is none: as the name of its column and as an error.
CREATE OR REPLACE TEMP MACRO trackiops_view(view) AS
    CASE WHEN list_contains(getvariable('trackiops_views'), view) THEN
        CASE view WHEN 'requests' THEN 'FROM trackiops_parquet(''requests'')'
        ELSE format('FROM {}(''{}'')', split_part(view, '_', 1), split_part(view, '_', 2)) END
    ELSE format('SELECT error(''{0}'') AS "{0}"', replace(replace(format(
        'no {} in {}: it has {}', view, getvariable('trackiops_store'), array_to_string(list_sort(getvariable('trackiops_views')), ', ')
    ), '''', ''''''), '"', '""')) END;

CREATE OR REPLACE TEMP VIEW rollup_1s AS FROM query(trackiops_view('rollup_1s'));
CREATE OR REPLACE TEMP VIEW rollup_10s AS FROM query(trackiops_view('rollup_10s'));
CREATE OR REPLACE TEMP VIEW rollup_1m AS FROM query(trackiops_view('rollup_1m'));
CREATE OR REPLACE TEMP VIEW rollup_1h AS FROM query(trackiops_view('rollup_1h'));
CREATE OR REPLACE TEMP VIEW ops_1s AS FROM query(trackiops_view('ops_1s'));
CREATE OR REPLACE TEMP VIEW ops_10s AS FROM query(trackiops_view('ops_10s'));
CREATE OR REPLACE TEMP VIEW ops_1m AS FROM query(trackiops_view('ops_1m'));
CREATE OR REPLACE TEMP VIEW ops_1h AS FROM query(trackiops_view('ops_1h'));
CREATE OR REPLACE TEMP VIEW health_1s AS FROM query(trackiops_view('health_1s'));
CREATE OR REPLACE TEMP VIEW health_10s AS FROM query(trackiops_view('health_10s'));
CREATE OR REPLACE TEMP VIEW health_1m AS FROM query(trackiops_view('health_1m'));
CREATE OR REPLACE TEMP VIEW health_1h AS FROM query(trackiops_view('health_1h'));
-- Of all levels: filter by level. Rows of the levels app and user are calls.
CREATE OR REPLACE TEMP VIEW requests AS FROM query(trackiops_view('requests'));

-- The start of the window of length step that a time is in. Windows begin at multiples of their length since the epoch.
--   SELECT window_start(time, '5m') AS time, sum(read_requests) AS reads FROM rollup_1m GROUP BY ALL ORDER BY time;
CREATE OR REPLACE TEMP MACRO window_start(instant, step) AS
    time_bucket(step::INTERVAL, instant, TIMESTAMPTZ '1970-01-01 00:00:00+00');

-- The sum of a list of histograms. With list() it is an aggregate.
--   SELECT path, hist_merge(list(read_latency_hist)) AS histogram FROM rollup_1m GROUP BY path;
CREATE OR REPLACE TEMP MACRO hist_merge(histograms) AS
    -- A list of one element gives its element a name. A subquery would copy the whole list into each row of it.
    -- First, each bit of a count is a key of its bucket: how often a key occurs is counted in one pass, and a few elements a bucket are left.
    -- What follows takes memory for elements times buckets.
    list_transform([list_sort(list_transform(
        map_entries(list_histogram(flatten(list_transform(flatten(histograms), lambda element:
            list_transform(
                list_filter(range(len(bin(element.count))), lambda bit: (element.count >> bit) & 1 = 1),
                lambda bit: (element.bucket + 1024) * 64 + bit
            )
        )))),
        lambda entry: {'bucket': (entry.key // 64 - 1024)::INTEGER, 'count': (entry.value::BIGINT << (entry.key % 64))::BIGINT}
    ))], lambda elements:
    list_transform([{
        'counts': list_transform(elements, lambda element: element.count),
        'places': list_histogram(list_transform(elements, lambda element: element.bucket))
    }], lambda ordered:
        -- How many elements each bucket has says where its counts begin and end.
        list_transform(map_keys(ordered.places), lambda bucket, i: {
            'bucket': bucket,
            'count': list_sum(list_slice(
                ordered.counts,
                coalesce(list_sum(list_slice(map_values(ordered.places), 1, i - 1)), 0)::BIGINT + 1,
                list_sum(list_slice(map_values(ordered.places), 1, i))::BIGINT
            ))::BIGINT
        })
    )[1])[1];

-- The latency in us that a share q of the requests in a histogram does not exceed: the geometric middle of the bucket that has the
-- request of that rank, at most 1.1 % off, or 7.5 % in histograms of calls (app_...). NULL without requests.
--   SELECT path, hist_percentile(hist_merge(list(read_latency_hist)), 0.99) AS read_p99 FROM rollup_1m GROUP BY path;
CREATE OR REPLACE TEMP MACRO hist_percentile(histogram, q) AS
    -- Goes through the buckets until none of the rank is left.
    2::DOUBLE ** ((list_reduce(
        list_sort(histogram),
        lambda rest, element: CASE WHEN rest.count <= 0 THEN rest ELSE {'bucket': element.bucket, 'count': rest.count - element.count} END,
        {'bucket': NULL::INTEGER, 'count': greatest(1, ceil(q::DOUBLE * list_sum(list_transform(histogram, lambda element: element.count))))::BIGINT}
    ).bucket + 0.5::DOUBLE) / 32);

-- The mean in us: a sum of times over the requests that have one. NULL without any.
--   SELECT path, mean_us(sum(read_latency_us_sum), sum(read_requests), sum(read_untimed)) AS read_mean FROM rollup_1m GROUP BY path;
CREATE OR REPLACE TEMP MACRO mean_us(us_sum, requests, untimed) AS
    us_sum / nullif(requests - untimed, 0)::DOUBLE;

-- What happened in a time per second of it: requests or bytes over the time that was recorded. NULL if none was.
--   SELECT host, rate(sum(seen), sum(covered_ms)) AS iops FROM health_1m GROUP BY host;
CREATE OR REPLACE TEMP MACRO rate(amount, covered_ms) AS
    amount::DOUBLE * 1000 / nullif(covered_ms, 0);

-- How much of each window each host recorded: in all, and operations of the protocol. Windows of another length with step.
--   FROM covered('1s', step := '10s') ORDER BY time, host;
CREATE OR REPLACE TEMP MACRO covered(granularity, step := NULL) AS TABLE
    SELECT window_start(time, coalesce(step, granularity)) AS time, host, sum(covered_ms)::BIGINT AS covered_ms, sum(ops_covered_ms)::BIGINT AS ops_covered_ms
    FROM health(granularity) GROUP BY ALL;

-- Requests and bytes per second of each host, file and window, by the time that was recorded: NULL where that is less than 50 ms, or
-- a twentieth of a window below 1 s, as in `trackiops query`. A file that was renamed in a window has a row for each name. Rates of
-- several files in one window of one host add up. Of the wire, or with level := 'block' of requests to devices: rows of levels never add up.
--   SELECT time, read_throughput, write_iops FROM throughput('1s', step := '1m') WHERE path = '/mnt/nfs/db/orders.db' ORDER BY time;
CREATE OR REPLACE TEMP MACRO throughput(granularity, step := NULL, level := 'wire') AS TABLE
    SELECT time, host, mount, path, file_key, covered_ms,
           rate(reads, rate_ms) AS read_iops, rate(read, rate_ms) AS read_throughput,
           rate(writes, rate_ms) AS write_iops, rate(written, rate_ms) AS write_throughput
    FROM (
        SELECT window_start(time, coalesce(step, granularity)) AS time, host, mount, path, file_key,
               sum(read_requests) AS reads, sum(read_bytes) AS read, sum(write_requests) AS writes, sum(write_bytes) AS written
        FROM rollup(granularity) AS rows_of_all WHERE coalesce(rows_of_all.level, 'wire') = level GROUP BY ALL
        -- `trackiops query` has no row of a file with metadata operations alone, either.
        HAVING reads + writes > 0
    ) LEFT JOIN (
        SELECT *, CASE WHEN covered_ms >= 50 * least(1, epoch(coalesce(step, granularity)::INTERVAL)) THEN covered_ms END AS rate_ms
        FROM covered(granularity, step := step)
    ) USING (time, host);
