// Package footprint keeps those pages of the program's own file out of resident memory that are not in
// use: a page that is used again is mapped again from the page cache.
//
// The start of the program initialises every package, also those of commands that do not run, and so
// maps most of its file: some 20 MB, of which an agent at work uses 3.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Keep trims at once and then again and again until ctx ends: soon at first, since much is done only
// once, and once a minute later. It ends at the first error, which costs memory and nothing else.
func Keep(ctx context.Context) { keep(ctx, Trim) }

func keep(ctx context.Context, trim func() error) {
	const first, last = 250 * time.Millisecond, time.Minute
	wait := time.NewTimer(first)
	defer wait.Stop()
	for pause := first; trim() == nil; pause = min(2*pause, last) {
		wait.Reset(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			return
		}
	}
}

// Trim unmaps the code and constants of the running program. It can be called at any time: what a
// thread uses next is mapped again. The error is one of reading /proc or of madvise(2).
func Trim() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	defer maps.Close()
	for _, m := range constant(maps, exe) {
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); e != 0 {
			return fmt.Errorf("trim resident memory: madvise: %w", e)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// constant returns the mappings of the file at path that cannot be written to, from the text of
// /proc/self/maps. A page of another mapping may differ from the file, and unmapping would lose that.
func constant(maps io.Reader, path string) (all []mapping) {
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var m mapping
		var mode, offset, device, inode, file string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s %s", &m.start, &m.end, &mode, &offset, &device, &inode, &file)
		if n == 7 && file == path && (mode == "r-xp" || mode == "r--p") {
			all = append(all, m)
		}
	}
	return all
}
