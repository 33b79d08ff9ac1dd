package check

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"kusto-agent/internal/config"
	"kusto-agent/internal/statedir"
)

// shared adds a finding if users other than the service may write to state_dir (dir); the agent
// would refuse to start with it.
func (r *run) shared(dir string) {
	st, err := os.Stat(dir)
	if err != nil {
		return // it does not exist yet, or writable has reported the error
	}
	groups, _ := os.Getgroups()
	groups = append(groups, os.Getegid())
	if r.Service.assumed() || r.Service.other() {
		groups = append(slices.Clone(r.Service.groups), r.Service.gid)
	}
	gid := -1
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		gid = int(sys.Gid)
	}
	if who, how := statedir.Writers(st.Mode(), gid, groups); who != "" {
		r.add(Finding{ID: "state.shared", Severity: Error, Where: dir, What: fmt.Sprintf("state_dir may be written by %s (%v), and the agent does not start with it", who, st.Mode()),
			Fix: "take that right away\nchmod " + how + " " + config.Quoted(dir)})
	}
}
