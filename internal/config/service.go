package config

import (
	"os"
	"path/filepath"
	"strings"
)

// service is the unit of systemd that runs an agent with the file at DefaultPath.
const service = "kusto-agent"

// Unit returns the unit of systemd that runs an agent with the configuration at path, without .service: an
// instance of the template for a file in its folder. It is "" for a file that no unit reads.
func Unit(path string) string {
	path = Absolute(path)
	if path == DefaultPath {
		return service
	}
	if name, isYAML := strings.CutSuffix(filepath.Base(path), ".yaml"); isYAML && filepath.Dir(path) == "/etc/kusto-agent/instances" {
		return service + "@" + name
	}
	return ""
}

// ServiceEnv returns the environment in which a command reads the configuration at path to look at
// its agent, not to run it: that of this process and, if a unit of systemd runs an agent with this
// file, the folders that systemd names to the service alone.
func ServiceEnv(path string) Env { return serviceEnv(path, os.LookupEnv, "/") }

// serviceEnv is ServiceEnv with the environment of the process and the root of the machine. The state
// folder is that of the unit, once systemd has made it. Credentials are those that systemd hands to
// the service, and while it does not run those of the store from which it would.
func serviceEnv(path string, env Env, root string) Env {
	unit := Unit(path)
	if unit == "" {
		return env
	}
	stores := []string{"run/credentials/" + unit + ".service"}
	if unit == service { // those of an instance have other names in the store
		stores = append(stores, "etc/credstore")
	}
	return func(name string) (string, bool) {
		value, ok := env(name)
		switch {
		case ok:
		case name == "STATE_DIRECTORY":
			dir := filepath.Join(root, "var/lib", unit)
			if _, err := os.Lstat(dir); err == nil {
				return dir, true
			}
		case name == "CREDENTIALS_DIRECTORY":
			for _, store := range stores {
				dir := filepath.Join(root, store)
				if files, err := filepath.Glob(dir + "/" + service + ".*"); err == nil && len(files) > 0 {
					return dir, true
				}
			}
		}
		return value, ok
	}
}
