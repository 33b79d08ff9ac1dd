package statedir

import (
	"io/fs"
	"slices"
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
