package creel

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The limits that control groups and the user's limits set.
type limits struct {
	// The sets of CPUs, from the process's own group outwards.
	cpusets []cpuSet
	// The numbers of workers that quotas and numbers of tasks allow.
	counts []int
}

// A mount is a mounted hierarchy of control groups.
type mount struct {
	isV2        bool
	controllers []string
	root, point string
}

func (m mount) names(controller string) bool {
	return contains(m.controllers, controller)
}

func contains(names []string, name string) bool {
	for _, other := range names {
		if other == name {
			return true
		}
	}
	return false
}

func readLimits(files tree) limits {
	mounts, groups := readMounts(files), readGroups(files)
	var found limits
	for _, controller := range []string{"cpuset", "cpu", "pids"} {
		at, within, ok := groups.mountOf(files, controller, mounts)
		if !ok {
			continue
		}
		for _, group := range upwards(at.point, within) {
			found.read(files, group, controller, at.isV2)
		}
	}
	if most, ok := readProcessLimit(files); ok {
		found.addCount(most)
	}
	return found
}

func (l *limits) addCount(count uint64) {
	switch {
	case count < 1:
		count = 1
	case count > math.MaxInt32:
		count = math.MaxInt32
	}
	l.counts = append(l.counts, int(count))
}

// read adds the limit of one controller in one group.
func (l *limits) read(files tree, group, controller string, isV2 bool) {
	switch controller {
	case "cpuset":
		names := []string{"cpuset.effective_cpus", "cpuset.cpus", "cpus"}
		if isV2 {
			names = []string{"cpuset.cpus.effective"}
		}
		for _, name := range names {
			if set := files.list(group + "/" + name); len(set) > 0 {
				l.cpusets = append(l.cpusets, set)
				return
			}
		}
	case "cpu":
		quota, period := "", ""
		if isV2 {
			text, _ := files.text(group + "/cpu.max")
			if words := strings.Fields(text); len(words) > 0 && words[0] != "max" {
				quota, period = words[0], "100000"
				if len(words) > 1 {
					period = words[1]
				}
			}
		} else if text, ok := files.text(group + "/cpu.cfs_quota_us"); ok {
			quota = text
			if period, ok = files.text(group + "/cpu.cfs_period_us"); !ok {
				period = "100000"
			}
		}
		// A quota of -1 means no limit.
		quotaUs, err1 := strconv.ParseUint(quota, 10, 64)
		periodUs, err2 := strconv.ParseUint(period, 10, 64)
		if err1 == nil && err2 == nil && quotaUs > 0 && periodUs > 0 {
			l.addCount(quotaUs / periodUs)
		}
	case "pids":
		most, ok := files.number(group + "/pids.max")
		if !ok || most < 0 {
			return
		}
		now, ok := files.number(group + "/pids.current")
		if !ok || now < 0 {
			now = 0
		}
		if now > most {
			now = most
		}
		l.addCount(uint64(most - now))
	}
}

// readProcessLimit returns the user's limit on processes, unless this process is exempt.
func readProcessLimit(files tree) (uint64, bool) {
	const exempt = 1<<21 | 1<<24 // CAP_SYS_ADMIN, CAP_SYS_RESOURCE
	status, _ := files.text("proc/self/status")
	for _, line := range strings.Split(status, "\n") {
		if hex := strings.TrimPrefix(line, "CapEff:"); hex != line {
			capable, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err == nil && capable&exempt != 0 {
				return 0, false
			}
		}
	}
	text, _ := files.text("proc/self/limits")
	for _, line := range strings.Split(text, "\n") {
		if rest := strings.TrimPrefix(line, "Max processes"); rest != line {
			if words := strings.Fields(rest); len(words) > 0 {
				most, err := strconv.ParseUint(words[0], 10, 64)
				return most, err == nil
			}
		}
	}
	return 0, false
}

// readMounts reads the mount table.
func readMounts(files tree) []mount {
	var mounts []mount
	if text, ok := files.text("proc/self/mountinfo"); ok {
		for _, line := range strings.Split(text, "\n") {
			left, right, ok := strings.Cut(line, " - ")
			place, system := strings.Split(left, " "), strings.Split(right, " ")
			if !ok || len(place) < 5 || len(system) < 2 {
				continue
			}
			options := ""
			if len(system) > 2 {
				options = system[2]
			}
			mounts = appendHierarchy(mounts, system[0], options, place[3], place[4])
		}
		return mounts
	}
	text, ok := files.text("proc/mounts")
	if !ok {
		text, _ = files.text("proc/self/mounts")
	}
	for _, line := range strings.Split(text, "\n") {
		if fields := strings.Split(line, " "); len(fields) >= 4 {
			mounts = appendHierarchy(mounts, fields[2], fields[3], "/", fields[1])
		}
	}
	return mounts
}

// appendHierarchy adds the mount of a hierarchy. Other file systems are left out.
func appendHierarchy(mounts []mount, kind, options, root, point string) []mount {
	found := mount{root: unescaped(root), point: unescaped(point)}
	switch kind {
	case "cgroup2":
		found.isV2 = true
	case "cgroup":
		found.controllers = strings.Split(options, ",")
	case "cpuset":
		found.controllers = []string{"cpuset"}
	default:
		return mounts
	}
	return append(mounts, found)
}

// unescaped decodes a field of a mount table, in which blanks and others are octal (\040).
func unescaped(field string) string {
	parts := strings.Split(field, `\`)
	text := parts[0]
	for _, part := range parts[1:] {
		if len(part) >= 3 {
			if code, err := strconv.ParseUint(part[:3], 8, 8); err == nil {
				text += string([]byte{byte(code)}) + part[3:]
				continue
			}
		}
		text += `\` + part
	}
	return text
}

// The groups of the process, by hierarchy.
type groups struct {
	lines []groupLine
	// The path in /proc/self/cpuset, for kernels without /proc/self/cgroup.
	cpuset string
}

type groupLine struct {
	controllers []string
	path        string
}

func readGroups(files tree) groups {
	var found groups
	text, _ := files.text("proc/self/cgroup")
	for _, line := range strings.Split(text, "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}
		var names []string
		for _, name := range strings.Split(fields[1], ",") {
			if name != "" {
				names = append(names, name)
			}
		}
		found.lines = append(found.lines, groupLine{names, fields[2]})
	}
	if path, ok := files.text("proc/self/cpuset"); ok && strings.HasPrefix(path, "/") {
		found.cpuset = path
	}
	return found
}

// path returns the group of the process in the hierarchy of a mount.
func (g groups) path(controller string, at mount) (string, bool) {
	for _, line := range g.lines {
		if at.isV2 && len(line.controllers) == 0 || !at.isV2 && contains(line.controllers, controller) {
			return line.path, true
		}
	}
	if len(g.lines) == 0 && g.cpuset != "" {
		return g.cpuset, true
	}
	return "", false
}

// mountOf returns the mount that has a controller, and the path of the group below it. If several
// mounts show the group, it is the one that shows the most ancestors. Something else may be mounted
// over that one, so a mount with the folder of the group has priority.
func (g groups) mountOf(files tree, controller string, mounts []mount) (mount, string, bool) {
	isV1 := false
	for _, at := range mounts {
		isV1 = isV1 || at.names(controller)
	}
	var best mount
	within, depth, isShown := "", -1, false
	for _, at := range mounts {
		if at.isV2 == isV1 || isV1 && !at.names(controller) {
			continue
		}
		path, ok := g.path(controller, at)
		if !ok {
			continue
		}
		inside, ok := below(files, path, at)
		if !ok {
			continue
		}
		levels, shown := strings.Count(inside, "/"), files.isFolder(at.point+"/"+inside)
		if shown && !isShown || shown == isShown && levels > depth {
			best, within, depth, isShown = at, inside, levels, shown
		}
	}
	return best, within, depth >= 0
}

// below returns the part of a group's path below the group that is mounted.
func below(files tree, path string, at mount) (string, bool) {
	if strings.HasPrefix(at.root, "/..") && !strings.HasPrefix(path, "/..") {
		// The mount begins above this namespace, so the names in between are hidden.
		above := names(at.root)
		levels := 0
		for levels < len(above) && above[levels] == ".." {
			levels++
		}
		if len(above) > levels {
			return "", false
		}
		return groupOfSelf(files, at.point, levels+len(names(path)))
	}
	root := strings.TrimRight(at.root, "/")
	rest := strings.TrimPrefix(path, root)
	if !strings.HasPrefix(path, root) || rest != "" && !strings.HasPrefix(rest, "/") {
		return "", false
	}
	if contains(strings.Split(path, "/"), "..") {
		return "", false
	}
	return strings.Trim(rest, "/"), true
}

// names returns the names in a path.
func names(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// groupOfSelf returns the group, the given number of levels below a mount point, that lists this
// process.
func groupOfSelf(files tree, point string, levels int) (string, bool) {
	const foldersMax = 10000
	stat, _ := files.text("proc/self/stat")
	pid, _, _ := strings.Cut(stat, " ")
	type place struct {
		within string
		depth  int
	}
	open := []place{{"", 0}}
	for looked := 0; pid != "" && len(open) > 0 && looked < foldersMax; looked++ {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		folder := point + "/" + at.within
		if at.depth == levels {
			members, _ := files.text(folder + "/cgroup.procs")
			if contains(strings.Fields(members), pid) {
				return at.within, true
			}
			continue
		}
		entries, _ := os.ReadDir(files.path(folder))
		for _, entry := range entries {
			if entry.IsDir() {
				inner := filepath.Join(at.within, entry.Name())
				open = append(open, place{inner, at.depth + 1})
			}
		}
	}
	return "", false
}

// upwards returns the folder of the group, that of its parent, and so on up to the mount point.
func upwards(point, within string) []string {
	point = strings.TrimRight(point, "/")
	folders := []string{}
	for within != "" {
		folders = append(folders, point+"/"+within)
		cut := strings.LastIndex(within, "/")
		if cut < 0 {
			break
		}
		within = within[:cut]
	}
	return append(folders, point)
}
