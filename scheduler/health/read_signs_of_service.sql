-- Read the web server's last heartbeat and the numbers of messages in the outbox.
SELECT
    (SELECT heartbeat.seen_at FROM heartbeat WHERE heartbeat.name = 'web') AS web_seen_at,
    count(*) FILTER (WHERE outbox_message.next_attempt_at IS NOT NULL) AS waiting_messages,
    count(*) FILTER (WHERE outbox_message.parked_at IS NOT NULL) AS parked_messages,
    min(outbox_message.created_at) FILTER (
        WHERE outbox_message.next_attempt_at IS NOT NULL
    ) AS oldest_message_at
FROM outbox_message
