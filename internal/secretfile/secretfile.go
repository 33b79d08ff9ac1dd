// Package secretfile says who else can read a file with a secret in it.
package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// IsOpen reports whether the mode of a file lets everyone read, write or execute it.
func IsOpen(mode fs.FileMode) bool { return mode.Perm()&0o007 != 0 }

// Exposed returns words for what everyone on this machine may do with a file: its mode allows it, and so
// do all folders above it, also those that links lead through. They are "" if nobody else may, if it
// cannot be looked at, and for a copy that was made for the agent alone, whose mode says nothing: a
// credential of systemd, or a secret that a container runtime has mounted. env looks up an environment
// variable, as os.LookupEnv does.
func Exposed(path string, env func(string) (string, bool)) string {
	credentials, _ := env("CREDENTIALS_DIRECTORY")
	if strings.HasPrefix(credentials, "/etc/") {
		credentials = "" // commands name the store there that systemd makes its copies from
	}
	pod, _ := env("KUBERNETES_SERVICE_HOST")
	real, err := filepath.EvalSymlinks(path)
	if err != nil || pod != "" || credentials != "" && filepath.Dir(path) == filepath.Clean(credentials) || isMounted(real) {
		return ""
	}
	st, err := os.Stat(real)
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o006 == 0 {
		return ""
	}
	for up := filepath.Dir(real); ; up = filepath.Dir(up) {
		if folder, err := os.Stat(up); err != nil || folder.Mode().Perm()&0o001 == 0 {
			return ""
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	can := "read"
	switch st.Mode().Perm() & 0o006 {
	case 0o006:
		can = "read and write"
	case 0o002:
		can = "write"
	}
	return fmt.Sprintf("everyone on this machine can %s it (mode %04o)", can, st.Mode().Perm())
}

// Group returns the name of a group, or its number if it has none, for a command that lets it read a file.
func Group(gid int) string {
	id := strconv.Itoa(gid)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// isMounted reports whether a path without links is where container runtimes mount secrets: below
// /run/secrets, or in a folder that Kubernetes makes anew at each update, such as ..2026_11_28_10_00_00.1.
func isMounted(real string) bool {
	return strings.HasPrefix(real, "/run/secrets/") ||
		slices.ContainsFunc(strings.Split(filepath.Dir(real), "/"), func(part string) bool { return strings.HasPrefix(part, "..") })
}
