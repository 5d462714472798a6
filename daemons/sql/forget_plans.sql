-- Discard this session's cached plans, including the plans of foreign key checks: a plan made while
-- the tables were small reads whole tables for each dropped row.
DISCARD PLANS
