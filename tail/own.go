package tail

import (
	"path/filepath"
	"strings"
)

// own is what belongs to the agent itself: its folders, by whatever path they are
// reached, and the files its log goes to. To read these would be to send what is
// said of the sending. It is of the goroutine that discovers.
type own struct {
	dirs    []string
	files   map[node]bool
	folders map[node]bool
	known   map[string]bool // folders met in this scan, and whether they are in one of these
}

func newOwn(o Options) own {
	all := own{dirs: o.Avoid, files: make(map[node]bool)}
	for _, f := range o.Own {
		if st, err := statFile(f); err == nil && st.regular {
			all.files[st.node] = true
		}
	}
	return all
}

// look begins a scan: the folders may have been made, or moved, since the last.
func (o *own) look(dirs []string) {
	o.folders, o.known = make(map[node]bool), make(map[string]bool)
	for _, dir := range dirs {
		if st, err := statPath(dir); err == nil {
			o.folders[st.node] = true
		}
	}
}

// names reports whether a path tells by itself that it is of the agent.
func (o *own) names(path string) bool {
	for _, dir := range o.dirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// holds reports whether a file is of the agent though its path does not tell: it
// is reached by a link, by another mount, or is its log.
func (o *own) holds(path string, n node) bool {
	if o.files[n] {
		return true
	}
	return o.inside(filepath.Dir(resolved(path)))
}

// resolved is where a link leads in the end, and any other path as it is.
func resolved(path string) string {
	if isLink(path) {
		if to, err := filepath.EvalSymlinks(path); err == nil {
			return to
		}
	}
	return path
}

// inside reports whether a folder is one of the agent's, or below one.
func (o *own) inside(dir string) bool {
	if in, ok := o.known[dir]; ok {
		return in
	}
	in := false
	if st, err := statPath(dir); err == nil {
		in = o.folders[st.node]
	}
	if up := filepath.Dir(resolved(dir)); !in && up != dir {
		in = o.inside(up)
	}
	o.known[dir] = in
	return in
}
