package statedir

import (
	"io/fs"
	"slices"
)

// Writers returns who else may write to a folder of the agent (who), and the argument of chmod
// that ends that (how); both are empty if nobody may. It judges by the mode and the group of the
// folder, and by the groups of the agent. The owner counts as trusted, and so does a group that
// the agent is in, as with volumes that are shared by group. The sticky bit is not enough: it
// keeps others from removing names, but not from creating one before the agent does.
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
