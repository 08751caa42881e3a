/* The number of workers of this process: usable cores, bounded by quotas and limits.
 *
 * This file needs no library. It follows the same rules as Creel's C library, and
 * crates/abi/tests/machines.rs compares the two on captured machines. Everything works on parts of
 * texts and on sets of fixed size, so only the texts of files are allocated. A file that is missing
 * or malformed sets no limit.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t __wrap_getNumberOfProcessors(void);
uint32_t creel_hs_workers(void);
uint32_t creel_hs_workers_in(const char *root, const char *mask);
int creel_hs_set_mask(const char *list);

/* ---- Parts of texts ------------------------------------------------------------------------- */

/* A part of a text. It does not end with NUL. */
typedef struct {
    const char *at;
    size_t size;
} part;

static part part_of(const char *text)
{
    part whole = {text, strlen(text)};
    return whole;
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static part trimmed(part text)
{
    while (text.size > 0 && is_space(text.at[0]))
        text.at++, text.size--;
    while (text.size > 0 && is_space(text.at[text.size - 1]))
        text.size--;
    return text;
}

static int equals(part text, const char *other)
{
    return text.size == strlen(other) && memcmp(text.at, other, text.size) == 0;
}

static int begins(part text, const char *prefix)
{
    return text.size >= strlen(prefix) && memcmp(text.at, prefix, strlen(prefix)) == 0;
}

static part from(part text, size_t begin)
{
    part rest = {text.at + begin, text.size - begin};
    return rest;
}

/* Splits a text at the first separator. Without one, the second part has no address. */
static part cut(part text, char separator, part *rest)
{
    const char *end = text.size > 0 ? memchr(text.at, separator, text.size) : NULL;
    part first = text;
    rest->at = NULL;
    rest->size = 0;
    if (end != NULL) {
        first.size = (size_t)(end - text.at);
        *rest = from(text, first.size + 1);
    }
    return first;
}

/* Takes the next of the parts between separators. Returns 0 if there is none left. */
static int next(part *rest, char separator, part *item)
{
    if (rest->at == NULL)
        return 0;
    *item = cut(*rest, separator, rest);
    return 1;
}

/* Takes the next word, which may be empty only at the end. */
static part word(part *rest)
{
    part found;
    *rest = trimmed(*rest);
    found = *rest;
    found.size = 0;
    while (rest->size > 0 && !is_space(rest->at[0])) {
        *rest = from(*rest, 1);
        found.size++;
    }
    return found;
}

static int has_item(part list, char separator, const char *name)
{
    part item;
    while (next(&list, separator, &item))
        if (equals(item, name))
            return 1;
    return 0;
}

/* Parses a number that consists of digits only. */
static int number(part text, unsigned base, uint64_t *value)
{
    uint64_t sum = 0;
    size_t at;
    for (at = 0; at < text.size; at++) {
        static const char digits[] = "0123456789abcdef";
        char c = text.at[at];
        const char *found = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
        uint64_t digit = found == NULL ? 16 : (uint64_t)(found - digits);
        if (digit >= base || sum > (UINT64_MAX - digit) / base)
            return 0;
        sum = sum * base + digit;
    }
    *value = sum;
    return text.size > 0;
}

/* ---- Sets of CPUs --------------------------------------------------------------------------- */

/* CPUs with a higher index are not accepted. The bound keeps a set at 2 KiB. */
enum { CPUS = 16384, BITS = CHAR_BIT * sizeof(unsigned long), WORDS = CPUS / BITS };

/* The layout is that of cpu_set_t, which is smaller. */
typedef struct {
    unsigned long words[WORDS];
} set;

static void add(set *cpus, unsigned cpu)
{
    cpus->words[cpu / BITS] |= 1UL << cpu % BITS;
}

static int has(const set *cpus, unsigned cpu)
{
    return (int)(cpus->words[cpu / BITS] >> cpu % BITS & 1);
}

static set both(const set *one, const set *other)
{
    set common;
    int at;
    for (at = 0; at < WORDS; at++)
        common.words[at] = one->words[at] & other->words[at];
    return common;
}

static int is_empty(const set *cpus)
{
    static const set empty;
    return memcmp(cpus, &empty, sizeof empty) == 0;
}

static int intersects(const set *one, const set *other)
{
    set common = both(one, other);
    return !is_empty(&common);
}

static void add_all(set *cpus, const set *more)
{
    int at;
    for (at = 0; at < WORDS; at++)
        cpus->words[at] |= more->words[at];
}

static int index_of(part text, unsigned *cpu)
{
    uint64_t value;
    if (!number(text, 10, &value) || value >= CPUS)
        return 0;
    *cpu = (unsigned)value;
    return 1;
}

/* Parses a CPU list, for example 0-3,8 or 0-9:2/4 (the first 2 of each 4). */
static int parse_list(part text, set *cpus)
{
    part rest = trimmed(text), item;
    memset(cpus, 0, sizeof *cpus);
    if (rest.size == 0)
        return 1;
    while (next(&rest, ',', &item)) {
        part stride, high, group_text;
        part bounds = cut(trimmed(item), ':', &stride), low = cut(bounds, '-', &high);
        unsigned cpu, first, last, used = 1, group = 1;
        if (!index_of(low, &first) || !index_of(high.at == NULL ? low : high, &last))
            return 0;
        if (stride.at != NULL) {
            part used_text = cut(stride, '/', &group_text);
            if (!index_of(used_text, &used) || !index_of(group_text, &group))
                return 0;
        }
        if (first > last || used == 0 || used > group)
            return 0;
        for (cpu = first; cpu <= last; cpu++)
            if ((cpu - first) % group < used)
                add(cpus, cpu);
    }
    return 1;
}

/* Parses a CPU mask, for example 0000ffff or ff,00000000. Each comma ends a word of 32 bits. */
static int parse_mask(part text, set *cpus)
{
    size_t base = 0, digits = 0;
    memset(cpus, 0, sizeof *cpus);
    text = trimmed(text);
    if (begins(text, "0x"))
        text = from(text, 2);
    while (text.size > 0) {
        part last = from(text, --text.size);
        uint64_t bits;
        unsigned bit;
        last.size = 1;
        if (last.at[0] == ',') {
            if (digits == 0)
                return 0;
            base += digits > 8 ? digits * 4 : 32;
            digits = 0;
            continue;
        }
        if (!number(last, 16, &bits))
            return 0;
        for (bit = 0; bit < 4; bit++) {
            size_t cpu = base + digits * 4 + bit;
            if ((bits >> bit & 1) == 0)
                continue;
            if (cpu >= CPUS)
                return 0;
            add(cpus, (unsigned)cpu);
        }
        digits++;
    }
    return digits > 0;
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* Writes a path below the root. Returns 0 if it is too long. */
static int path_of(char *path, const char *root, const char *folder, const char *name)
{
    int length = snprintf(path, PATH_MAX, name == NULL ? "%s/%s" : "%s/%s/%s", root, folder, name);
    return length >= 0 && length < PATH_MAX;
}

/* The largest file that we read. /proc/cpuinfo has about 1.5 KB for each CPU. */
enum { FILE_MAX = 1 << 25 };

static int is_folder(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    return path_of(path, root, name, NULL) && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Reads a file. Returns a buffer that the caller must free, or NULL. */
static char *read_file(const char *root, const char *folder, const char *name, part *text)
{
    char path[PATH_MAX], *buffer = NULL;
    size_t length = 0, capacity = 0;
    ssize_t count = 0;
    int file = -1;
    /* Opening a FIFO without a writer would block. With this flag it reads as empty. */
    if (path_of(path, root, folder, name))
        file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    text->at = NULL;
    text->size = 0;
    if (file < 0)
        return NULL;
    do {
        length += (size_t)count;
        if (length == capacity) {
            char *larger;
            capacity = capacity == 0 ? 4096 : capacity * 2;
            larger = capacity > FILE_MAX ? NULL : realloc(buffer, capacity);
            if (larger == NULL) {
                count = -1;
                break;
            }
            buffer = larger;
        }
        do {
            count = read(file, buffer + length, capacity - length);
        } while (count < 0 && errno == EINTR);
    } while (count > 0);
    close(file);
    if (count < 0) {
        free(buffer);
        return NULL;
    }
    text->at = buffer;
    text->size = length;
    /* Some files end with a NUL. */
    while (text->size > 0 && (text->at[text->size - 1] == '\0' || is_space(text->at[text->size - 1])))
        text->size--;
    *text = trimmed(*text);
    return buffer;
}

static int read_list(const char *root, const char *folder, const char *name, set *cpus)
{
    part text;
    char *buffer = read_file(root, folder, name, &text);
    int is_valid = buffer != NULL && parse_list(text, cpus);
    free(buffer);
    return is_valid;
}

static int read_number(const char *root, const char *folder, const char *name, uint64_t *value)
{
    part text;
    char *buffer = read_file(root, folder, name, &text);
    int is_valid = buffer != NULL && number(text, 10, value);
    free(buffer);
    return is_valid;
}

/* ---- The machine ---------------------------------------------------------------------------- */

#define CPU_FOLDER "sys/devices/system/cpu"

/* Returns the CPUs that have a folder. */
static set folders(const char *root)
{
    set cpus = {{0}};
    char path[PATH_MAX];
    DIR *folder = path_of(path, root, CPU_FOLDER, NULL) ? opendir(path) : NULL;
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        part name = part_of(entry->d_name);
        unsigned cpu;
        if (begins(name, "cpu") && index_of(from(name, 3), &cpu))
            add(&cpus, cpu);
    }
    if (folder != NULL)
        closedir(folder);
    return cpus;
}

/* The fields of one CPU in /proc/cpuinfo. Missing numbers are -1. */
typedef struct {
    int cpu, package, core, siblings, cores;
} processor;

/* Reads /proc/cpuinfo. Returns an array that the caller must free. */
static processor *read_cpuinfo(const char *root, size_t *count)
{
    part text, line;
    char *buffer = read_file(root, "proc", "cpuinfo", &text);
    processor *all = malloc(CPUS * sizeof *all);
    *count = 0;
    while (all != NULL && next(&text, '\n', &line)) {
        part value, key = trimmed(cut(line, ':', &value));
        unsigned parsed;
        int found = index_of(trimmed(value), &parsed) ? (int)parsed : -1;
        if (value.at == NULL)
            continue;
        if (begins(key, "processor")) {
            /* On s390, the number is part of the key: `processor 0: version = 00`. */
            part rest = trimmed(from(key, strlen("processor")));
            processor first = {-1, -1, -1, -1, -1};
            if (rest.size > 0)
                found = index_of(rest, &parsed) ? (int)parsed : -1;
            first.cpu = found;
            if (found >= 0 && *count < CPUS)
                all[(*count)++] = first;
        } else if (*count > 0) {
            processor *last = &all[*count - 1];
            if (equals(key, "physical id"))
                last->package = found;
            else if (equals(key, "core id"))
                last->core = found;
            else if (equals(key, "siblings"))
                last->siblings = found;
            else if (equals(key, "cpu cores"))
                last->cores = found;
        }
    }
    free(buffer);
    return all;
}

/* Returns the online CPUs: those of the kernel's list, or the folders that are not offline, or those
 * of /proc/cpuinfo, or those of /proc/stat. */
static set read_online(const char *root)
{
    set online, all;
    processor *processors;
    size_t count, at;
    unsigned cpu;
    part text, line;
    char *buffer;
    if (read_list(root, CPU_FOLDER, "online", &online) && !is_empty(&online))
        return online;
    memset(&online, 0, sizeof online);
    all = folders(root);
    for (cpu = 0; cpu < CPUS; cpu++) {
        char folder[64];
        uint64_t state;
        if (!has(&all, cpu))
            continue;
        snprintf(folder, sizeof folder, CPU_FOLDER "/cpu%u", cpu);
        if (!read_number(root, folder, "online", &state) || state != 0)
            add(&online, cpu);
    }
    if (!is_empty(&online))
        return online;
    processors = read_cpuinfo(root, &count);
    for (at = 0; at < count; at++)
        add(&online, (unsigned)processors[at].cpu);
    free(processors);
    if (!is_empty(&online))
        return online;
    buffer = read_file(root, "proc", "stat", &text);
    while (next(&text, '\n', &line)) {
        part rest, name = cut(line, ' ', &rest);
        if (begins(name, "cpu") && index_of(from(name, 3), &cpu))
            add(&online, cpu);
    }
    free(buffer);
    return online;
}

/* Reads a CPU mask, or the list next to it if there is no usable mask. */
static int read_mask_or_list(const char *root, const char *folder, const char *name, set *cpus)
{
    char list[32];
    part text;
    char *buffer = read_file(root, folder, name, &text);
    int is_valid = buffer != NULL && parse_mask(text, cpus);
    free(buffer);
    snprintf(list, sizeof list, "%s_list", name);
    return is_valid || read_list(root, folder, list, cpus);
}

static int by_core(const void *one, const void *other)
{
    const processor *left = one, *right = other;
    if (left->package != right->package)
        return left->package < right->package ? -1 : 1;
    return (left->core > right->core) - (left->core < right->core);
}

/* Counts the allowed cores by package and core in /proc/cpuinfo, or returns 0 unless every online
 * CPU has both. The number of a core is unique only within its package, and is used only if the
 * package has more siblings than cores. */
static unsigned cores_of_cpuinfo(const char *root, const set *online, const set *allowed)
{
    size_t count, at, kept = 0;
    unsigned cores = 0;
    processor *all = read_cpuinfo(root, &count);
    set reported = {{0}};
    for (at = 0; at < count; at++) {
        processor one = all[at];
        if (one.siblings >= 0 && one.siblings == one.cores)
            one.core = one.cpu;
        if (!has(online, (unsigned)one.cpu) || has(&reported, (unsigned)one.cpu))
            continue;
        if (one.package < 0 || one.core < 0)
            continue;
        add(&reported, (unsigned)one.cpu);
        if (has(allowed, (unsigned)one.cpu))
            all[kept++] = one;
    }
    if (kept > 0 && memcmp(&reported, online, sizeof reported) == 0) {
        qsort(all, kept, sizeof *all, by_core);
        for (at = 0; at < kept; at++)
            cores += at == 0 || by_core(&all[at - 1], &all[at]) != 0;
    }
    free(all);
    return cores;
}

/* Counts the cores that have an allowed CPU. A CPU without known siblings is a core of its own. */
static unsigned count_cores(const char *root, const set *online, const set *allowed)
{
    set all = folders(root), covered = {{0}};
    unsigned cpu, count = 0;
    for (cpu = 0; cpu < CPUS; cpu++) {
        char folder[64];
        set siblings;
        unsigned other;
        if (!has(&all, cpu) || has(&covered, cpu))
            continue;
        snprintf(folder, sizeof folder, CPU_FOLDER "/cpu%u/topology", cpu);
        if (!read_mask_or_list(root, folder, "core_cpus", &siblings) &&
            !read_mask_or_list(root, folder, "thread_siblings", &siblings))
            continue;
        for (other = 0; other < WORDS; other++)
            siblings.words[other] &= ~covered.words[other];
        count += (unsigned)intersects(&siblings, allowed);
        add_all(&covered, &siblings);
    }
    if (is_empty(&covered) && (count = cores_of_cpuinfo(root, online, allowed)) > 0)
        return count;
    for (cpu = 0; cpu < CPUS; cpu++)
        count += has(allowed, cpu) && !has(&covered, cpu);
    return count;
}

/* ---- Control groups ------------------------------------------------------------------------- */

/* A mounted hierarchy of control groups. */
typedef struct {
    int is_v2;
    part controllers;
    char root[PATH_MAX], point[PATH_MAX];
} mount;

/* Decodes a field of a mount table, in which blanks and others are octal (\040). */
static int unescape(part field, char *text)
{
    size_t length = 0;
    if (field.size >= PATH_MAX)
        return 0;
    while (field.size > 0) {
        part digits = {field.at + 1, 3};
        uint64_t code;
        int is_code = field.at[0] == '\\' && field.size >= 4 && number(digits, 8, &code) &&
                      code > 0 && code <= UCHAR_MAX;
        text[length++] = is_code ? (char)code : field.at[0];
        field = from(field, is_code ? 4 : 1);
    }
    text[length] = '\0';
    return 1;
}

/* The mount table, which is read once. */
typedef struct {
    part text;
    int is_mountinfo;
} table;

/* Takes the next mount of a hierarchy. Other file systems are left out. */
static int next_mount(table *rest, mount *found)
{
    part line;
    while (next(&rest->text, '\n', &line)) {
        part fields[5], left = line, root = {"/", 1}, point, kind, options;
        size_t count = 0;
        if (rest->is_mountinfo) {
            part system;
            const char *end = line.size >= 3 ? memmem(line.at, line.size, " - ", 3) : NULL;
            if (end == NULL)
                continue;
            left.size = (size_t)(end - line.at);
            system = from(line, left.size + 3);
            while (count < 5 && next(&left, ' ', &fields[count]))
                count++;
            kind = cut(system, ' ', &system);
            if (count < 5 || system.at == NULL)
                continue;
            cut(system, ' ', &options);
            options = cut(options, ' ', &system);
            root = fields[3];
            point = fields[4];
        } else {
            while (count < 4 && next(&left, ' ', &fields[count]))
                count++;
            if (count < 4)
                continue;
            point = fields[1];
            kind = fields[2];
            options = fields[3];
        }
        found->is_v2 = equals(kind, "cgroup2");
        found->controllers = equals(kind, "cpuset") ? kind : options;
        if (found->is_v2 || equals(kind, "cgroup") || equals(kind, "cpuset"))
            if (unescape(root, found->root) && unescape(point, found->point))
                return 1;
    }
    return 0;
}

static int names(const mount *at, const char *controller)
{
    return !at->is_v2 && has_item(at->controllers, ',', controller);
}

/* The texts that say where the control groups of this process are. */
typedef struct {
    const char *root;
    table mounts;
    part groups, cpuset, pid;
} place;

/* Returns the group of the process in the hierarchy of a mount. The part has no address if there is
 * none. */
static part group_of(const place *own, const char *controller, const mount *at)
{
    part rest = own->groups, line, none = {NULL, 0};
    int has_lines = 0;
    while (next(&rest, '\n', &line)) {
        part path, controllers;
        cut(line, ':', &path);
        controllers = cut(path, ':', &path);
        if (path.at == NULL)
            continue;
        has_lines = 1;
        if (at->is_v2 ? controllers.size == 0 : has_item(controllers, ',', controller))
            return path;
    }
    return !has_lines && begins(own->cpuset, "/") ? own->cpuset : none;
}

/* Adds a name to a path. Returns the new length, or 0 if the path is too long. */
static size_t append(char *path, size_t length, part name)
{
    if (length + name.size + 2 > PATH_MAX)
        return 0;
    path[length++] = '/';
    memcpy(path + length, name.at, name.size);
    path[length + name.size] = '\0';
    return length + name.size;
}

/* Counts the names in a path, and those at its beginning that are "..". */
static size_t count_names(part path, size_t *above)
{
    part name;
    size_t count = 0;
    *above = 0;
    while (next(&path, '/', &name)) {
        *above += *above == count && equals(name, "..");
        count += name.size > 0;
    }
    return count;
}

/* Extends a path to the group that lists this process. It is the given number of levels below. */
static int find_self(part pid, char *path, size_t length, size_t levels, unsigned *folders_left)
{
    int is_found = 0;
    DIR *folder;
    struct dirent *entry;
    if (*folders_left == 0)
        return 0;
    --*folders_left;
    if (levels == 0) {
        part members, member;
        char *buffer = read_file("", path, "cgroup.procs", &members);
        while (!is_found && (member = word(&members)).size > 0)
            is_found = member.size == pid.size && memcmp(member.at, pid.at, pid.size) == 0;
        free(buffer);
        return is_found;
    }
    folder = opendir(path);
    while (folder != NULL && !is_found && (entry = readdir(folder)) != NULL) {
        part name = part_of(entry->d_name);
        struct stat info;
        size_t longer;
        if (equals(name, ".") || equals(name, ".."))
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(info.st_mode) && (longer = append(path, length, name)) > 0)
            is_found = find_self(pid, path, longer, levels - 1, folders_left);
    }
    if (folder != NULL)
        closedir(folder);
    return is_found;
}

/* Writes the folder of a group below a mount, if the mount shows it. The first bytes of the folder
 * are the mount point, and the result is their number plus 1. */
static size_t folder_below(const place *own, part group, const mount *at, char *folder)
{
    part root = part_of(at->root), rest;
    size_t above, unused, length = strlen(at->point);
    while (length > 0 && at->point[length - 1] == '/')
        length--;
    memcpy(folder, at->point, length);
    folder[length] = '\0';
    if (begins(root, "/..") && !begins(group, "/..")) {
        /* The mount begins above this namespace, so the names in between are hidden. */
        char path[PATH_MAX];
        unsigned folders_left = 10000;
        size_t prefix = strlen(own->root) + 1, names = count_names(root, &above);
        if (names > above || own->pid.size == 0 || !path_of(path, own->root, folder, NULL))
            return 0;
        names += count_names(group, &unused);
        if (!find_self(own->pid, path, prefix + length, names, &folders_left))
            return 0;
        strcpy(folder, path + prefix);
        return length + 1;
    }
    while (root.size > 0 && root.at[root.size - 1] == '/')
        root.size--;
    if (group.size < root.size || memcmp(group.at, root.at, root.size) != 0)
        return 0;
    rest = from(group, root.size);
    if ((rest.size > 0 && rest.at[0] != '/') || has_item(group, '/', ".."))
        return 0;
    while (rest.size > 0 && rest.at[0] == '/')
        rest = from(rest, 1);
    while (rest.size > 0 && rest.at[rest.size - 1] == '/')
        rest.size--;
    return rest.size == 0 || append(folder, length, rest) > 0 ? length + 1 : 0;
}

/* Writes the folder of the process's group for a controller, and the length of the mount point in
 * it. If several mounts show the group, it is the one that shows the most ancestors. Something else
 * may be mounted over that one, so a mount with the folder of the group has priority. */
static int folder_of(const place *own, const char *controller, char *folder, size_t *point, int *is_v2)
{
    table rest = own->mounts;
    mount at;
    int is_v1 = 0;
    size_t best = 0;
    while (next_mount(&rest, &at))
        is_v1 |= names(&at, controller);
    rest = own->mounts;
    while (next_mount(&rest, &at)) {
        char found[PATH_MAX];
        const char *c;
        size_t rank = 1, length = 0;
        part group = {NULL, 0};
        if (is_v1 ? names(&at, controller) : at.is_v2)
            group = group_of(own, controller, &at);
        if (group.at != NULL)
            length = folder_below(own, group, &at, found);
        if (length == 0)
            continue;
        for (c = found + length; length <= strlen(found) && *c != '\0'; c++)
            rank += *c == '/';
        if (is_folder(own->root, found))
            rank += PATH_MAX;
        if (rank <= best)
            continue;
        strcpy(folder, found);
        *point = length - 1;
        *is_v2 = at.is_v2;
        best = rank;
    }
    return best > 0;
}

/* ---- The limits ----------------------------------------------------------------------------- */

static void limit(unsigned *workers, uint64_t most)
{
    if (most < *workers)
        *workers = most < 1 ? 1 : (unsigned)most;
}

/* Narrows the allowed CPUs to the cpuset of a group, if they have a CPU in common. */
static void limit_cpus(const char *root, const char *group, int is_v2, set *allowed)
{
    static const char *const v1[] = {"cpuset.effective_cpus", "cpuset.cpus", "cpus"};
    static const char *const v2[] = {"cpuset.cpus.effective"};
    int at, count = is_v2 ? 1 : 3;
    for (at = 0; at < count; at++) {
        set cpus;
        if (!read_list(root, group, is_v2 ? v2[at] : v1[at], &cpus) || is_empty(&cpus))
            continue;
        cpus = both(allowed, &cpus);
        if (!is_empty(&cpus))
            *allowed = cpus;
        return;
    }
}

/* A quota of -1 or "max" is not a number, and means no limit. */
static void limit_time(const char *root, const char *group, int is_v2, unsigned *workers)
{
    uint64_t quota_us, period_us = 100000;
    int is_limited;
    if (is_v2) {
        part text;
        char *buffer = read_file(root, group, "cpu.max", &text);
        is_limited = number(word(&text), 10, &quota_us);
        text = word(&text);
        if (text.size > 0)
            is_limited = number(text, 10, &period_us) && is_limited;
        free(buffer);
    } else {
        char *buffer;
        part text;
        is_limited = read_number(root, group, "cpu.cfs_quota_us", &quota_us);
        buffer = read_file(root, group, "cpu.cfs_period_us", &text);
        if (buffer != NULL)
            is_limited = number(text, 10, &period_us) && is_limited;
        free(buffer);
    }
    if (is_limited && quota_us > 0 && period_us > 0)
        limit(workers, quota_us / period_us);
}

static void limit_pids(const char *root, const char *group, unsigned *workers)
{
    uint64_t most, now;
    if (!read_number(root, group, "pids.max", &most))
        return;
    if (!read_number(root, group, "pids.current", &now))
        now = 0;
    limit(workers, now < most ? most - now : 0);
}

/* Applies the limits of all groups of this process, from the outermost one inwards. */
static void limit_by_groups(const place *own, set *allowed, unsigned *workers)
{
    static const char *const controllers[] = {"cpuset", "cpu", "pids"};
    int which;
    for (which = 0; which < 3; which++) {
        char folder[PATH_MAX];
        size_t end;
        int is_v2;
        if (!folder_of(own, controllers[which], folder, &end, &is_v2))
            continue;
        for (;;) {
            char group[PATH_MAX];
            memcpy(group, folder, end);
            group[end] = '\0';
            if (which == 0 && allowed != NULL)
                limit_cpus(own->root, group, is_v2, allowed);
            else if (which == 1)
                limit_time(own->root, group, is_v2, workers);
            else if (which == 2)
                limit_pids(own->root, group, workers);
            if (folder[end] == '\0')
                break;
            end++;
            while (folder[end] != '\0' && folder[end] != '/')
                end++;
        }
    }
}

/* Applies the user's limit on processes, unless this process is exempt. */
static void limit_by_user(const char *root, part status, unsigned *workers)
{
    const uint64_t exempt = 1 << 21 | 1 << 24; /* CAP_SYS_ADMIN, CAP_SYS_RESOURCE */
    part line, limits;
    char *buffer;
    while (next(&status, '\n', &line)) {
        uint64_t capable;
        if (begins(line, "CapEff:") && number(trimmed(from(line, 7)), 16, &capable) && (capable & exempt) != 0)
            return;
    }
    buffer = read_file(root, "proc/self", "limits", &limits);
    while (next(&limits, '\n', &line)) {
        uint64_t most;
        if (!begins(line, "Max processes"))
            continue;
        line = from(line, strlen("Max processes"));
        if (number(word(&line), 10, &most))
            limit(workers, most);
        break;
    }
    free(buffer);
}

/* Reads the affinity mask in /proc/self/status. */
static int mask_of_status(part status, set *mask)
{
    part line;
    while (next(&status, '\n', &line))
        if (begins(line, "Cpus_allowed_list:") && parse_list(from(line, strlen("Cpus_allowed_list:")), mask) &&
            !is_empty(mask))
            return 1;
    return 0;
}

/* Returns the online CPUs of the files, and those of the affinity mask if it contradicts the files,
 * because the kernel enforces it. The mask is NULL if it is unknown. */
static set online_with(const char *root, const set *mask, int is_live)
{
    set online = read_online(root);
    if (mask != NULL && (is_live || !intersects(mask, &online)))
        add_all(&online, mask);
    return online;
}

/* Reads where the control groups of this process are. The texts are in the given buffers. */
static place read_place(const char *root, char *buffers[4])
{
    place own;
    part rest;
    own.root = root;
    buffers[0] = read_file(root, "proc/self", "mountinfo", &own.mounts.text);
    own.mounts.is_mountinfo = buffers[0] != NULL;
    if (buffers[0] == NULL)
        buffers[0] = read_file(root, "proc", "mounts", &own.mounts.text);
    if (buffers[0] == NULL)
        buffers[0] = read_file(root, "proc/self", "mounts", &own.mounts.text);
    buffers[1] = read_file(root, "proc/self", "cgroup", &own.groups);
    buffers[2] = read_file(root, "proc/self", "cpuset", &own.cpuset);
    buffers[3] = read_file(root, "proc/self", "stat", &own.pid);
    own.pid = cut(own.pid, ' ', &rest);
    return own;
}

/* Returns the number of workers of a machine whose /proc and /sys are below the root. The mask is
 * that of a running process, or NULL for that of /proc/self/status. */
static unsigned workers_in(const char *root, const set *live)
{
    char *buffers[4], *buffer;
    place own = read_place(root, buffers);
    part status;
    set online, allowed, mask;
    unsigned workers = UINT_MAX, cores = 1;
    int at, is_masked = live != NULL;
    buffer = read_file(root, "proc/self", "status", &status);
    if (live != NULL)
        mask = *live;
    else
        is_masked = mask_of_status(status, &mask);
    online = online_with(root, is_masked ? &mask : NULL, live != NULL);
    allowed = is_masked ? both(&online, &mask) : online;
    limit_by_groups(&own, is_masked ? NULL : &allowed, &workers);
    limit_by_user(root, status, &workers);
    if (!is_empty(&online))
        cores = count_cores(root, &online, &allowed);
    free(buffer);
    for (at = 0; at < 4; at++)
        free(buffers[at]);
    return cores < workers ? cores : workers;
}

/* ---- What Haskell calls --------------------------------------------------------------------- */

/* Returns the number of usable cores, with quotas rounded down. It is at least 1, and at most the
 * number of `creel run --jobs`. */
uint32_t creel_hs_workers(void)
{
    const char *given = getenv("CREEL_JOBS");
    set mask = {{0}};
    uint64_t jobs;
    int is_masked = sched_getaffinity(0, sizeof mask, (cpu_set_t *)&mask) == 0;
    unsigned workers = workers_in("", is_masked && !is_empty(&mask) ? &mask : NULL);
    if (given != NULL && number(trimmed(part_of(given)), 10, &jobs) && jobs > 0)
        limit(&workers, jobs);
    return workers;
}

/* Replaces the function with which GHC's runtime counts processors. */
uint32_t __wrap_getNumberOfProcessors(void)
{
    return creel_hs_workers();
}

/* Returns the number for a captured machine, as creel_workers_in of the C library. The mask is a CPU
 * list, or empty for that of /proc/self/status. Tests call this. */
uint32_t creel_hs_workers_in(const char *root, const char *mask)
{
    set asked, recorded, online;
    part status;
    char *buffer;
    int is_recorded;
    if (!is_folder(root, "proc") && !is_folder(root, "sys"))
        return 0;
    if (*mask == '\0')
        return workers_in(root, NULL);
    if (!parse_list(part_of(mask), &asked))
        return 0;
    buffer = read_file(root, "proc/self", "status", &status);
    is_recorded = mask_of_status(status, &recorded);
    free(buffer);
    online = online_with(root, is_recorded ? &recorded : NULL, 0);
    /* If no file lists a CPU, we know only those of the mask. */
    if (!is_empty(&online))
        asked = both(&asked, &online);
    return is_empty(&asked) ? 0 : workers_in(root, &asked);
}

/* Narrows the affinity mask of the calling thread to a CPU list. Returns 0 or an error number. */
int creel_hs_set_mask(const char *list)
{
    set current = {{0}}, mask, common;
    if (!parse_list(part_of(list), &mask) || is_empty(&mask))
        return EINVAL;
    if (sched_getaffinity(0, sizeof current, (cpu_set_t *)&current) != 0)
        return errno;
    common = both(&mask, &current);
    if (memcmp(&common, &mask, sizeof mask) != 0)
        return EINVAL;
    return sched_setaffinity(0, sizeof mask, (cpu_set_t *)&mask) == 0 ? 0 : errno;
}
