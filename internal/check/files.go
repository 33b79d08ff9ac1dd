package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/secretfile"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/tail"
)

// files finds the files that each input would read, with the rights of the service, and adds
// findings on those that it can and cannot read. It also checks the files that the configuration
// names. r.folders becomes the number of folders to watch.
func (r *run) files(context.Context) {
	if r.Service.other() {
		r.add(Finding{ID: "files.user", Severity: Warning, Where: r.Service.name(),
			What: fmt.Sprintf("files were looked at as %s, and the service runs as %s", r.Service.name(), r.Service.User),
			Fix:  "run it as root, which looks at them as the service does\nsudo kusto-agent check --config " + config.Quoted(r.Path)})
	}
	own, closeAll := r.ownLog()
	defer closeAll()
	var found *tail.Found
	var err error
	taken := r.Service.reading(func() { found, err = tail.Look(r.cfg.Tails(), r.cfg.Folders(), own) })
	if err = errors.Join(taken, err); err != nil {
		r.add(Finding{ID: "files.user", Severity: Error, What: "files were not looked at: " + err.Error(), Fix: "run it as the user of the service\nsudo -u " + serviceUser + " kusto-agent check --config " + config.Quoted(r.Path)})
		return
	}
	r.folders = found.Folders
	r.handed()
	for i := range r.cfg.Inputs {
		r.filesOf(&r.cfg.Inputs[i], found.Files)
	}
	for _, o := range found.Overlaps {
		r.add(Finding{ID: "files.copies", Severity: Warning, Input: o.By, Where: o.Copy,
			What: fmt.Sprintf("this input reads what rotation may make of %s, a file of the input %s: what copytruncate copies or a rotation compresses is then sent twice", o.Path, o.Input),
			Fix:  "give the patterns of both to one input, or leave the rotated names out: files that are renamed are read to their end without them"})
	}
}

// handed adds findings on the configuration files and on the secret and certificate files that they
// name: whether they exist, whether the service may read them, and whether everyone may read a secret. A file that only systemd has to
// read, because it passes it on as a credential, need not be readable.
func (r *run) handed() {
	files := append(slices.Clone(r.cfg.Files), r.cfg.SecretFiles()...)
	files = append(files, r.cfg.Send.TLS.CAFile)
	if tel := r.cfg.Telemetry; tel.Listen != "" { // they are not read otherwise
		files = append(files, tel.TokenFile, tel.TLS.CertificateFile)
	}
	credentials, _ := r.Env("CREDENTIALS_DIRECTORY")
	for _, path := range files {
		if path == "" {
			continue
		}
		byName := filepath.Dir(path) == credentials // systemd passes it on as a credential
		mayBePassed := byName || r.traced.MayBeCredential(path)
		path = config.Absolute(path)
		f := Finding{ID: "files.secret", Severity: Error, Where: path}
		_, err := os.Stat(path)
		switch {
		case gone(err) && mayBePassed && inStore(path):
			continue
		case gone(err):
			owner := "-o " + config.Quoted(r.Service.account()) + " "
			if byName {
				owner = "" // systemd reads it
			}
			f.What = "this file, which the configuration names, is not there"
			if mayBePassed {
				f.Severity, f.What = Warning, f.What+", unless systemd provides it as a credential"
			}
			f.Fix = "put it there, or name another; this takes it from the terminal\ninstall -D -m 600 " + owner + "/dev/stdin " + config.Quoted(path)
			r.add(f)
			continue
		}
		_ = r.Service.reading(func() { err = unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS) }) // no error: files already acted as this user
		if errors.Is(err, unix.EACCES) && !byName {
			f.What = r.Service.name() + " may not read this file, which the configuration is or names"
			f.Fix = "give " + r.Service.account() + " the right\n" + strings.Join(append(r.enter(filepath.Dir(path)), "setfacl -m u:"+r.Service.account()+":r "+config.Quoted(path)), "\n")
			r.add(f)
		}
	}
	for _, path := range r.cfg.SecretFiles() {
		path = config.Absolute(path)
		if can := secretfile.Exposed(path, r.Env); can != "" {
			group := config.Quoted(r.Service.group())
			r.add(Finding{ID: "files.exposed", Severity: Warning, Where: path, What: "this file holds a secret, and " + can,
				Fix: "let only the service read it\nchgrp " + group + " " + config.Quoted(path) + "\nchmod 640 " + config.Quoted(path)})
		}
	}
	r.guard()
}

// guard adds a finding for each of the token and the certificate of the telemetry endpoint that the
// agent would end for. What is missing or may not be read has a finding of its own and is left out.
func (r *run) guard() {
	tel := r.cfg.Telemetry
	readable := func(path string) bool {
		err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS)
		return !gone(err) && !errors.Is(err, fs.ErrPermission)
	}
	if !readable(tel.TokenFile) {
		tel.TokenFile = ""
	}
	if !readable(tel.TLS.CertificateFile) || !readable(tel.TLS.KeyFile) {
		tel.TLS = telemetry.TLSConfig{}
	}
	_, err := telemetry.NewGuard(tel, slog.New(slog.DiscardHandler))
	for _, err := range leaves(err) {
		what, fix, _ := strings.Cut(err.Error(), "; ")
		r.add(Finding{ID: "telemetry", Severity: Error, What: what, Fix: fix, Exit: exit.Config})
	}
}

// leaves returns the errors that were joined into err; none for nil.
func leaves(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// gone says that an error is of a path that leads to nothing.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// inStore reports whether systemd has a credential with the name of this file. A folder that
// cannot be examined counts as having it.
func inStore(path string) bool {
	return slices.ContainsFunc([]string{credentialStore, credentialStore + ".encrypted"}, func(store string) bool {
		_, err := os.Stat(filepath.Join(store, filepath.Base(path)))
		return !gone(err)
	})
}

// ownLog opens the regular files to which a running agent (process r.Log) writes its own log, so
// that an input that matches them is found. The caller calls closeAll.
func (r *run) ownLog() (own []*os.File, closeAll func()) {
	for _, fd := range []string{"1", "2"} {
		if r.Log == 0 {
			break
		}
		path := fmt.Sprintf("/proc/%d/fd/%s", r.Log, fd)
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if f, err := os.Open(path); err == nil {
			own = append(own, f)
		}
	}
	return own, func() {
		for _, f := range own {
			f.Close()
		}
	}
}

// filesOf adds findings on the files of one input, out of the files in seen, which are those of all
// inputs. Readable files get one finding, the others one for each folder and reason, and each folder
// that cannot be entered or listed one of its own.
func (r *run) filesOf(in *config.Input, seen []tail.Seen) {
	readable, bytes := 0, int64(0)
	groups := make(map[string][]tail.Seen)
	var order []string
	for _, s := range seen {
		switch {
		case s.Input != in.Name:
		case s.Err == nil:
			readable, bytes = readable+1, bytes+s.Size
		default:
			key := filepath.Dir(s.Path) + "\x00" + reason(s)
			if s.Shut { // not one of the files of its folder: it takes other commands
				key = s.Path
			}
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], s)
		}
	}
	if readable > 0 || len(order) == 0 {
		r.ok("files", in.Name, "", "%s, %s, readable for %s", units.Counted(readable, "file"), size(bytes), r.Service.name())
	}
	for _, key := range order {
		r.unread(in, groups[key])
	}
}

// reason returns why a file is not read, without the path of the file, so that files of the same
// folder can be grouped by it. s.Err is not nil.
func reason(s tail.Seen) string {
	if path, ok := errors.AsType[*fs.PathError](s.Err); ok {
		return path.Err.Error()
	}
	return s.Err.Error()
}

// unread adds a finding on the files in one folder (all, at least one) that an input cannot read
// for the same reason, with commands to fix it.
func (r *run) unread(in *config.Input, all []tail.Seen) {
	s := all[0]
	f := Finding{Input: in.Name, Where: s.Path, What: reason(s), Fix: s.Fix, Severity: Warning, ID: "files.kind"}
	if more := len(all) - 1; more > 0 {
		f.What += fmt.Sprintf("; so are %d more in its folder", more)
	}
	switch {
	case errors.Is(s.Err, unix.EACCES), errors.Is(s.Err, unix.EPERM):
		f.ID, f.Severity = "files.permission", Error
		f.What = fmt.Sprintf("%s may not read %s of this folder: %s", r.Service.name(), units.Counted(len(all), "file"), names(all))
		f.Where = filepath.Dir(s.Path)
		if s.Shut {
			f.Where, f.What = s.Path, r.Service.name()+" may not enter or list this folder"
		}
		f.Fix = "give " + r.Service.account() + " the right, for what is there and what is still to come\n" + r.grant(in, all)
	case errors.Is(s.Err, tail.ErrPlanted):
		f.ID, f.Severity = "files.link", Error
	case strings.HasPrefix(f.What, "no file matches"):
		f.ID, f.Where = "files.match", strings.Join(in.Paths, " ")
	case strings.Contains(f.What, "belongs to the agent itself"):
		f.ID = "files.own"
	case errors.Is(s.Err, fs.ErrNotExist):
		f.What = "the link leads to nothing"
	}
	r.add(f)
}

// names returns the names of the first three files, joined with commas, and "…" if there are more.
func names(all []tail.Seen) string {
	const most = 3
	var list []string
	for _, s := range all[:min(len(all), most)] {
		list = append(list, filepath.Base(s.Path))
	}
	if len(all) > most {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// grant returns the commands that let the service read the files of one folder (all), and files
// that will be created there. After 8 lines the last command is to run check again for the rest. If
// the folder itself cannot be entered, they are those of grantFolder.
func (r *run) grant(in *config.Input, all []tail.Seen) string {
	if all[0].Shut {
		return r.grantFolder(in, all[0].Path)
	}
	folder, who := filepath.Dir(all[0].Path), "u:"+r.Service.account()
	lines := append(r.enter(filepath.Dir(folder)), fmt.Sprintf("setfacl -m %s:rx,d:%s:r %s", who, who, config.Quoted(folder)))
	for some := range slices.Chunk(all, 4) {
		line := "setfacl -m " + who + ":r"
		for _, s := range some {
			line += " " + config.Quoted(s.Path)
		}
		if lines = append(lines, line); len(lines) > 8 {
			lines = append(lines, "kusto-agent check --config "+config.Quoted(r.Path)+" # for the rest")
			break
		}
	}
	return strings.Join(lines, "\n")
}

// grantFolder returns the commands that let the service read the files that the patterns of the
// input match in or below a folder, and no others. shut is a folder that the service may not enter
// or list.
func (r *run) grantFolder(in *config.Input, shut string) string {
	who := "u:" + r.Service.account()
	var lines []string
	for _, p := range in.Paths {
		base, rest := doublestar.SplitPattern(config.Absolute(p))
		switch {
		case base != shut && !strings.HasPrefix(base, strings.TrimSuffix(shut, "/")+"/"):
			continue
		case strings.Contains(rest, "/"):
			lines = append(append(lines, r.enter(filepath.Dir(base))...), fmt.Sprintf("setfacl -R -m %s:rX,d:%s:rX %s", who, who, config.Quoted(base)))
		default:
			name := ""
			if !strings.ContainsAny(rest, `{}\`) { // find does not know such patterns, so the command names no pattern
				name = " -name " + config.Quoted(rest)
			}
			lines = append(append(lines, r.enter(filepath.Dir(base))...), fmt.Sprintf("setfacl -m %s:rx,d:%s:r %s", who, who, config.Quoted(base)),
				fmt.Sprintf("find %s -maxdepth 1 -type f%s -exec setfacl -m %s:r {} +", config.Quoted(base), name, who))
		}
	}
	if len(lines) == 0 { // the folder is matched by a wildcard, such as b in /a/*/x.log
		lines = append(r.enter(filepath.Dir(shut)), fmt.Sprintf("setfacl -m %s:rx %s", who, config.Quoted(shut)))
	}
	return strings.Join(lines, "\n")
}

// enter returns the commands that let the service enter a folder and the folders above it, for
// those that it may not enter yet.
func (r *run) enter(folder string) (lines []string) {
	_ = r.Service.reading(func() { // if it cannot act as this user, that was reported before
		for up := folder; ; up = filepath.Dir(up) {
			if errors.Is(unix.Faccessat(unix.AT_FDCWD, up, unix.X_OK, unix.AT_EACCESS), unix.EACCES) {
				lines = append(lines, fmt.Sprintf("setfacl -m u:%s:x %s", r.Service.account(), config.Quoted(up)))
			}
			if up == filepath.Dir(up) {
				break
			}
		}
	})
	slices.Reverse(lines)
	return lines
}
