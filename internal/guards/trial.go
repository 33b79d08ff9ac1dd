package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// trial runs tests with and without guards.
type trial struct {
	root, work string
	sound      map[string]bool // tests that pass with all guards in place
}

// takeOut runs the tests of the guard g, a line of code, without that line, and sets g.caught to
// the test that fails; "" if all pass. The same tests must pass with the line, which is checked
// once for each set of tests. The source is not changed: the compiler gets the changed file as an
// overlay.
func (t *trial) takeOut(ctx context.Context, g *guard) error {
	if key := g.Package + " " + g.Tests; !t.sound[key] {
		failed, err := t.test(ctx, g, "")
		if err == nil && failed != "" {
			err = fmt.Errorf("%s fails with all guards in place", failed)
		}
		if err != nil {
			return err
		}
		t.sound[key] = true
	}
	root, err := filepath.Abs(t.root)
	if err != nil {
		return err
	}
	changed := filepath.Join(t.work, "changed.go")
	if err := os.WriteFile(changed, []byte(g.changed), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {inRoot(root, g.File): changed}})
	if err != nil {
		return err
	}
	path := filepath.Join(t.work, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return err
	}
	g.caught, err = t.test(ctx, g, path)
	return err
}

// event is what is read of a line of go test -json.
type event struct{ Action, Test, Output, FailedBuild string }

// test runs the tests of a guard and returns the name of the first that fails; "" if all pass.
// overlay is a file for go test -overlay, or "" for the source as it is. It is an error if no test
// matches, or if the source does not build.
func (t *trial) test(ctx context.Context, g *guard, overlay string) (failed string, err error) {
	args := []string{"test", "-json", "-short", "-failfast", "-vet=off", "-p", "1", "-timeout", "3m", "-run", "^(" + g.Tests + ")$"}
	if overlay != "" {
		args = append(args, "-count", "1", "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, g.Package)...)
	cmd.Dir = t.root
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var ended *exec.ExitError
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil && !errors.As(err, &ended) {
		return "", err
	}
	running, ran, built, broken := "", false, "", false // built: what the compiler printed
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-output":
			built += e.Output
		case e.FailedBuild != "" || e.Action == "build-fail":
			broken = true
		case e.Action == "run":
			running, ran = e.Test, true
		case e.Action == "fail" && e.Test != "" && failed == "":
			failed, _, _ = strings.Cut(e.Test, "/")
		}
	}
	switch {
	case broken:
		return "", fmt.Errorf("it does not build: %s%s", said.Bytes(), built)
	case !ran:
		return "", fmt.Errorf("no test of %s matches %q: %s%s", g.Package, g.Tests, said.Bytes(), out)
	case err != nil && failed == "": // the process died, for example by a panic: the running test has failed
		failed, _, _ = strings.Cut(running, "/")
	}
	return failed, nil
}
