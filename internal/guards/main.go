// Command guards promises that each guard of the agent is watched by a test: it takes one
// after the other out of the source, runs the test that is named for it, and fails where
// that stays green. A guard is a line without which something is lost, doubled without a
// name, or believed that nobody checked: a sync, a checksum, an order of two writes, a
// bound, a lock.
//
// The guards are in guards.txt. Nothing in the source tree is changed: the compiler reads
// the changed file by way of go test -overlay.
//
//	go run ./internal/guards                # all of them, and docs/guards.md is written
//	go run ./internal/guards -only 'spool'  # those whose file, name or test matches
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"
)

// page is where the table with the results goes, from the root of the module.
const page = "docs/guards.md"

// main runs all guards, or those that -only matches, and exits with code 1 if a test does not
// notice that one is missing.
func main() {
	only := flag.String("only", "", "take out guards alone whose file, name or test matches this `expression`")
	limit := flag.Duration("limit", time.Hour, "give up after this `time`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, os.Stdout, ".", *only); err != nil {
		fmt.Fprintln(os.Stderr, "guards:", err)
		stop()
		os.Exit(1)
	}
}

// run takes the guards, lines of code that a safety promise rests on, out of the source one by one
// and runs the tests that have to fail then. It takes only those whose file, name or test matches
// only. If it was all and each was caught, it writes docs/guards.md. It is an error if the tests
// pass without a guard ("survives"), if guards.txt does not fit the source, or if a test fails with
// all guards in place.
func run(ctx context.Context, out io.Writer, root, only string) error {
	all, err := load(root)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(g *guard) bool {
		return !wanted.MatchString(g.File + "\n" + g.Name + "\n" + g.Package + "\n" + g.Tests)
	})
	work, err := os.MkdirTemp("", "guards")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	began := time.Now()
	t := trial{root: root, work: work, sound: map[string]bool{}}
	survivors := 0
	var failed []error
	for i, g := range chosen {
		at := time.Now()
		switch err := t.takeOut(ctx, g); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failed = append(failed, fmt.Errorf("guard %q of %s: %w", g.Name, g.File, err))
			fmt.Fprintf(out, "%d/%d cannot be judged: %s: %s\n", i+1, len(chosen), g.File, g.Name)
		case g.caught == "":
			survivors++
			fmt.Fprintf(out, "%d/%d SURVIVES  %s: %s\n", i+1, len(chosen), g.File, g.Name)
		default:
			fmt.Fprintf(out, "%d/%d caught by %s in %.1f s: %s: %s\n", i+1, len(chosen), g.caught, time.Since(at).Seconds(), g.File, g.Name)
		}
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d guards, %d survive, %.0f s\n", len(chosen), survivors, took.Seconds())
	if survivors > 0 {
		failed = append(failed, fmt.Errorf("%d of %d guards can be taken out, and no test notices", survivors, len(chosen)))
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if len(chosen) < len(all) {
		return nil
	}
	return os.WriteFile(inRoot(root, page), render(all, took), 0o644)
}
