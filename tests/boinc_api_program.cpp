// A program of our own that uses BOINC's application library as science programs do.
//
// Arguments: STEPS [wait]. It takes STEPS steps of a tenth of a second and notes each in the file
// `steps` of its slot. Before each step it adds to `checkpoint` how far it is, so that a later
// start goes on there. With `wait`, it sends a trickle up and uploads `part` near its last step, and
// ends only when a trickle down has come and the upload is confirmed. Its output `out` has what it
// got from the client.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include <boinc/boinc_api.h>

static int read_number(const char *name) {
    int number = 0;
    if (FILE *file = fopen(name, "r")) {
        if (fscanf(file, "%d", &number) != 1) number = 0;
        fclose(file);
    }
    return number;
}

static void write_number(const char *name, int number) {
    // Replaced in one step: the library may end the program at any instruction.
    std::string unfinished = std::string(name) + ".new";
    if (FILE *file = fopen(unfinished.c_str(), "w")) {
        fprintf(file, "%d\n", number);
        fclose(file);
        rename(unfinished.c_str(), name);
    }
}

static void note_exit() { write_number("left_in_order", read_number("left_in_order") + 1); }

static FILE *open_output(const char *name) {
    std::string path;
    boinc_resolve_filename_s(name, path);
    return fopen(path.c_str(), "w");
}

// BOINC's client puts an empty line before the text of a trickle.
static std::string first_words(const char *name) {
    char line[256] = "";
    if (FILE *file = fopen(name, "r")) {
        while (!line[0] && fgets(line, sizeof line, file)) line[strcspn(line, "\n")] = 0;
        fclose(file);
    }
    return line;
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 10;
    bool waits = argc > 2 && !strcmp(argv[2], "wait");
    if (boinc_init()) return 1;
    atexit(note_exit);
    write_number("starts", read_number("starts") + 1);
    std::string told;
    bool is_sent = false;
    APP_INIT_DATA facts;
    boinc_get_init_data(facts);
    for (int step = read_number("checkpoint"); step < steps; step++) {
        boinc_begin_critical_section();
        write_number("checkpoint", step);
        boinc_checkpoint_completed();
        boinc_end_critical_section();
        usleep(100000);
        write_number("steps", step + 1);
        boinc_fraction_done((step + 1) / (steps + 1.0));
        if (waits && step >= steps - 2 && !is_sent) {
            is_sent = true;
            char variety[] = "progress", text[] = "<step>3</step>\n";
            boinc_send_trickle_up(variety, text);
            FILE *part = open_output("part");
            fprintf(part, "the first part\n");
            fclose(part);
            std::string name = "part";
            boinc_upload_file(name);
        }
    }
    std::string part = "part";
    for (int turn = 0; waits && turn < 1200; turn++) {
        char name[256];
        if (told.empty() && boinc_receive_trickle_down(name, sizeof name)) {
            told = first_words(name);
            unlink(name);
        }
        if (!told.empty() && !boinc_upload_status(part)) break;
        usleep(100000);
    }
    FILE *out = open_output("out");
    fprintf(out, "steps %d\nstandalone %d\n", steps, boinc_is_standalone());
    if (waits) fprintf(out, "told %s\nuploaded %d\n", told.c_str(), boinc_upload_status(part));
    fprintf(out, "client %d\nshare %d\nspecific %d\nprefs %d\nncpus %.0f\n", facts.client_pid > 0,
            facts.resource_share_fraction > 0 && facts.resource_share_fraction <= 1,
            facts.project_preferences && strstr(facts.project_preferences, "<color>") != nullptr,
            facts.global_prefs.disk_max_used_pct > 0, facts.ncpus);
    fclose(out);
    boinc_finish(0);
}
