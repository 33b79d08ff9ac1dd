package check

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// Writers says who beside its owner and the agent may write to a folder, by its mode,
// its group and the groups the agent is in, and the argument of chmod that ends that;
// nobody: both are empty. The owner has given the folder to the agent, and counts as no
// other. A group may write there if the agent is in it, as with volumes that are shared
// by group. That only their owners can remove names (the sticky bit) is not enough:
// others can be there first.
func Writers(mode fs.FileMode, gid int, groups []int) (who, how string) {
	group := mode&0o020 != 0 && !slices.Contains(groups, gid)
	switch {
	case mode&0o002 != 0 && group:
		return "anyone", "go-w"
	case mode&0o002 != 0:
		return "anyone", "o-w"
	case group:
		return "a group that is not the agent's", "g-w"
	}
	return "", ""
}

// shared tells whether others may write to state_dir, for which the agent refuses it.
func (r *run) shared(dir string) {
	st, err := os.Stat(dir)
	if err != nil {
		return // it is not there yet, or what is wrong was told
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
	if who, how := Writers(st.Mode(), gid, groups); who != "" {
		r.add(Finding{ID: "state.shared", Severity: Error, Where: dir, What: fmt.Sprintf("state_dir may be written by %s (%v), and the agent does not start with it", who, st.Mode()),
			Fix: "take that right away\nchmod " + how + " " + Quoted(dir)})
	}
}
