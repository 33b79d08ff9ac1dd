package check

import (
	"cmp"
	"path/filepath"
	"strings"
)

// relative warns of paths whose meaning depends on the folder in which the agent is started, if systemd starts
// it: in the folder of whoever runs check all may look well. A tilde is warned of in any case, since only a
// shell replaces it.
func (r *run) relative() {
	warn := func(input, path, key string) {
		f := Finding{ID: "config.relative", Severity: Warning, Input: input, Where: path}
		switch {
		case strings.HasPrefix(path, "~/"):
			f.What = key + ": ~ is the name of a folder here, and not the home folder of a user"
		case r.Service.Unit != "" && path != "" && !filepath.IsAbs(path):
			f.What = key + ": a relative path, which is below the folder in which the agent is started; systemd starts the service in " + cmp.Or(r.Service.Folder, "/")
		default:
			return
		}
		f.Fix = "write the full path"
		r.add(f)
	}
	for i := range r.cfg.Inputs {
		in := &r.cfg.Inputs[i]
		for _, pattern := range in.Paths {
			warn(in.Name, pattern, "paths")
		}
	}
	warn("", r.cfg.StateDir, "state_dir")
	if r.cfg.Spool.Dir != filepath.Join(r.cfg.StateDir, "spool") { // else it is told already
		warn("", r.cfg.Spool.Dir, "spool.dir")
	}
}
