-- Writes the input files of new workunits.
COPY workunit_file (workunit_id, position, file_id, open_name, copy_file, sticky) FROM STDIN
