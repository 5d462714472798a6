-- Input files of workunits, as text.
COPY workunit_file (workunit_id, position, file_id, open_name, copy_file, sticky) FROM STDIN
