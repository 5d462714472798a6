-- Read the description of a workunit that the generator `copy` copies, with its input files.
SELECT
    w.app_id,
    w.file_delete_state,
    jsonb_build_object(
        'command_line', w.command_line,
        'keywords', w.keywords,
        'meta', w.meta,
        'outputs', w.outputs,
        'rsc_fpops_est', w.rsc_fpops_est,
        'rsc_fpops_bound', w.rsc_fpops_bound,
        'rsc_memory_bound', w.rsc_memory_bound,
        'rsc_disk_bound', w.rsc_disk_bound,
        'rsc_bandwidth_bound', w.rsc_bandwidth_bound,
        'requested_cpus', w.requested_cpus,
        'requested_gpus', w.requested_gpus,
        'delay_bound', extract(epoch FROM w.delay_bound)::double precision,
        'expected_duration', extract(epoch FROM w.expected_duration)::double precision,
        'max_termination_time', extract(epoch FROM w.max_termination_time)::double precision,
        'min_quorum', w.min_quorum,
        'target_nresults', w.target_nresults,
        'max_error_results', w.max_error_results,
        'max_total_results', w.max_total_results,
        'max_success_results', w.max_success_results,
        'max_timeouts', w.max_timeouts,
        'priority', w.priority,
        'size_class', w.size_class,
        'app_version_num', w.app_version_num,
        'queue', q.name,
        'input_files', coalesce(
            (
                SELECT
                    jsonb_agg(
                        jsonb_build_object(
                            'open_name', i.open_name,
                            'known_as', f.name,
                            'copy_file', i.copy_file,
                            'sticky', i.sticky
                        )
                        ORDER BY i.position
                    )
                FROM workunit_file AS i
                INNER JOIN file AS f ON i.file_id = f.id
                WHERE i.workunit_id = w.id
            ),
            '[]'::jsonb
        )
    ) AS description
FROM workunit AS w
LEFT JOIN queue AS q ON w.queue_id = q.id
WHERE w.name = %(name)s::text
