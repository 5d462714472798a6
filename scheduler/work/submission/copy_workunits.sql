-- Writes new workunits; a name that is already taken raises a unique violation.
COPY workunit (
    id, name, priority, release_state, pending_dependency_count, hold_code, command_line, meta,
    outputs, output_bytes, keywords, rsc_fpops_est, rsc_fpops_bound, rsc_memory_bound,
    rsc_disk_bound, rsc_bandwidth_bound, requested_cpus, requested_gpus, delay_bound,
    expected_duration, max_termination_time, min_quorum, target_nresults, max_error_results,
    max_total_results, max_success_results, max_timeouts, size_class, app_version_num,
    target_host_id, target_account_id, target_team_id, queue_id, broadcast, start_after,
    start_before, end_before, is_group, bundle_id, app_id, batch_id, outputs_kept, waits_for_batch,
    created_at, transition_at
) FROM STDIN
