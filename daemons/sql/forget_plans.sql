-- Discard this session's cached plans, those of foreign key checks included: a plan made while the
-- tables were small reads whole tables for each dropped row.
DISCARD PLANS
