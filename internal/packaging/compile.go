package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// compile builds the static agent for one machine and returns its path. Nothing of
// this machine, of the folder or of the day is in it.
func (r *release) compile(arch string) (path string, err error) {
	path = filepath.Join(r.work, "kusto-agent-"+arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil // that of the host
	}
	set := fmt.Sprintf("-s -w -buildid= -X kusto-agent/internal/version.release=%s -X kusto-agent/internal/version.commit=%s -X kusto-agent/internal/version.date=%s", r.version, r.commit, r.date)
	cmd := r.goCommand(arch, "build", "-trimpath", "-buildvcs=false", "-ldflags", set, "-o", path, "./cmd/agent")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the agent: %w\n%s", err, out)
	}
	return path, nil
}

// hostAgent is an agent that runs on this machine: the manual pages, the completions
// and the schema are what it prints.
func (r *release) hostAgent() (path string, err error) {
	if !slices.Contains(arches, runtime.GOARCH) {
		return "", fmt.Errorf("packages are made on %s, this machine is %s", strings.Join(arches, " or "), runtime.GOARCH)
	}
	return r.compile(runtime.GOARCH)
}

// toolchain is the folder and the version of the Go that compiles.
func (r *release) toolchain(arch string) (root, version string, err error) {
	out, err := r.goCommand(arch, "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env: %w", err)
	}
	root, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return root, strings.TrimPrefix(version, "go"), nil
}

// goCommand runs in the checkout for one machine, with none of the settings of
// whoever builds that change what is built.
func (r *release) goCommand(arch string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = r.root
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOFLAGS", "GOEXPERIMENT", "GOWORK", "GOAMD64", "GOARM64", "GOFIPS140", "PWD"}, name)
	})
	cmd.Env = append(env, "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	return cmd
}
