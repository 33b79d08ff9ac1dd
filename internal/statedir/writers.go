package statedir

import (
	"io/fs"
	"slices"
)

// Writers returns who else may write to a folder of the agent (who), and the argument of chmod that
// ends that (how); both are "" if nobody may. mode and gid are those of the folder, groups are
// those that the agent is in. The owner counts as trusted, and so does a group of the agent, as
// with volumes that are shared by group. A sticky bit does not help: others could still create a
// file before the agent does.
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
