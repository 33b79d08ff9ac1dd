package check

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/units"
)

// besides are descriptors the agent has open beside files it reads: its state,
// its log, its listener and its watches.
const besides = 64

// limits compares what the configuration asks for with what the kernel gives.
func (r *run) limits(context.Context) {
	r.descriptors()
	r.watches()
}

// descriptors compares the number of descriptors that the agent needs (limits.open_files and
// connections) with the limit of the service, or with that of this process if the first is not
// known. It adds a finding.
func (r *run) descriptors() {
	given, whose := r.Service.Files, "LimitNOFILE of the unit"
	if given == 0 {
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
			return // does not happen: every kernel has this limit
		}
		given, whose = l.Max, "the limit of this shell"
	}
	want := uint64(r.cfg.Limits.OpenFiles + besides + r.cfg.Send.Concurrency.Most()*len(r.cfg.Clusters))
	if given >= want {
		r.ok("limits.open_files", "", "", "limits.open_files is %d, %s allows %d", r.cfg.Limits.OpenFiles, whose, given)
		return
	}
	f := Finding{ID: "limits.open_files", Severity: Error, What: fmt.Sprintf("limits.open_files is %d and the rest needs %d, but %s allows %d", r.cfg.Limits.OpenFiles, want-uint64(r.cfg.Limits.OpenFiles), whose, given),
		Fix: fmt.Sprintf("raise it, or lower limits.open_files\nulimit -n %d", want)}
	if unit := r.Service.Unit; unit != "" {
		f.Fix = fmt.Sprintf("raise it, or lower limits.open_files\nmkdir -p /etc/systemd/system/%s.service.d\nprintf '[Service]\\nLimitNOFILE=%d\\n' >/etc/systemd/system/%s.service.d/files.conf\nsystemctl daemon-reload", unit, want, unit)
	}
	r.add(f)
}

// watches compares the number of folders to watch (r.folders) with the inotify watches that the
// kernel allows a user, and adds a finding.
func (r *run) watches() {
	most := kernelNumber("fs/inotify/max_user_watches")
	instances := kernelNumber("fs/inotify/max_user_instances")
	switch {
	case most == 0:
		return // no inotify, or /proc cannot be read: the agent polls then, and logs it
	case r.folders >= most:
		want := max(2*r.folders, 65536)
		r.add(Finding{ID: "limits.inotify", Severity: Warning, What: fmt.Sprintf("folders to watch: %d, and a user may watch %d: the rest is looked at now and then", r.folders, most),
			Fix: fmt.Sprintf("raise the limit, now and for the next boot\nsysctl -w fs.inotify.max_user_watches=%d\necho fs.inotify.max_user_watches=%d >/etc/sysctl.d/50-kusto-agent.conf", want, want)})
	case instances > 0 && instances < 8:
		r.add(Finding{ID: "limits.inotify", Severity: Warning, What: fmt.Sprintf("a user may have %d inotify instances only, and others may hold them", instances),
			Fix: "raise the limit\nsysctl -w fs.inotify.max_user_instances=128"})
	default:
		r.ok("limits.inotify", "", "", "%s to watch, a user may watch %d", units.Counted(r.folders, "folder"), most)
	}
}

// kernelNumber returns the number in a file below /proc/sys; 0 if the file cannot be read. name is
// the path below /proc/sys.
func kernelNumber(name string) int {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}
