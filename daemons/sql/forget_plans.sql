-- Has this session plan anew, the checks of foreign keys among it: their plans were kept from a day
-- on which the tables were small, and then read whole tables for each row that is dropped.
DISCARD PLANS
