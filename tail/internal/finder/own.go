package finder

import (
	"path/filepath"
	"strings"
)

// Own is what belongs to the agent itself: its folders, by whatever path they are
// reached, and the files its log goes to. To read these would be to send what is
// said of the sending. It belongs to one goroutine.
type Own struct {
	dirs    []string
	files   map[Node]bool
	folders map[Node]bool
	known   map[string]bool // folders met in this scan, and whether they are in one of these
}

// NewOwn returns the set of all files in these folders, by whatever path, and of these
// files.
func NewOwn(folders []string, files []Node) *Own {
	all := &Own{dirs: folders, files: make(map[Node]bool)}
	for _, n := range files {
		all.files[n] = true
	}
	return all
}

// Begin has to be called before each scan: it looks up the inodes of the agent's folders, which may
// have been created or moved since the last one, and forgets which other folders were found to lie
// in them.
func (o *Own) Begin() {
	o.folders, o.known = make(map[Node]bool), make(map[string]bool)
	for _, dir := range o.dirs {
		if st, err := look(dir); err == nil {
			o.folders[st.Node] = true
		}
	}
}

// Names reports whether a path shows that it lies in one of the agent's own folders. Links are not
// resolved: see Holds.
func (o *Own) Names(path string) bool {
	for _, dir := range o.dirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// Holds reports whether a file is the agent's although its path does not show it: a link
// or another mount leads to it, or it is the agent's log.
func (o *Own) Holds(path string, n Node) bool {
	if o.files[n] {
		return true
	}
	return o.inside(filepath.Dir(resolved(path)))
}

// resolved returns the target of a link, and any other path unchanged.
func resolved(path string) string {
	if IsLink(path) {
		return Leads(path)
	}
	return path
}

// inside reports whether a folder is one of the agent's, or lies in one, by whatever path. It
// stores the answers for the rest of the scan.
func (o *Own) inside(dir string) bool {
	if in, ok := o.known[dir]; ok {
		return in
	}
	in := false
	if st, err := look(dir); err == nil {
		in = o.folders[st.Node]
	}
	if up := filepath.Dir(resolved(dir)); !in && up != dir {
		in = o.inside(up)
	}
	o.known[dir] = in
	return in
}
