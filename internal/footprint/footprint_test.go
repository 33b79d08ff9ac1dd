package footprint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrim: less of the program's file is resident afterwards, and the program goes on.
func TestTrim(t *testing.T) {
	before := resident(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	after := resident(t)
	if after >= before {
		t.Errorf("%d pages of files are resident, and %d were before", after, before)
	}
}

// resident is how many pages of files this process has mapped in memory.
func resident(t *testing.T) (pages int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, all int
	if _, err := fmt.Sscan(string(text), &size, &all, &pages); err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestConstant: only mappings of the program itself that nobody writes to are taken.
func TestConstant(t *testing.T) {
	const maps = `00400000-011a6000 r-xp 00000000 fe:00 131 /usr/bin/kusto-agent
011a6000-01fe2000 r--p 00da6000 fe:00 131 /usr/bin/kusto-agent
01fe2000-020ec000 rw-p 01be2000 fe:00 131 /usr/bin/kusto-agent
020ec000-04360000 rw-p 00000000 00:00 0
c000000000-c004000000 rw-p 00000000 00:00 0
7f1c00000000-7f1c00021000 r--p 00000000 fe:00 77 /usr/lib/locale/C.utf8/LC_CTYPE
7f1c00021000-7f1c00022000 r-xs 00000000 fe:00 131 /usr/bin/kusto-agent
7ffd1a000000-7ffd1a021000 rw-p 00000000 00:00 0 [stack]
7ffd1a1c0000-7ffd1a1c2000 r-xp 00000000 00:00 0 [vdso]
`
	want := []mapping{{0x400000, 0x11a6000}, {0x11a6000, 0x1fe2000}}
	if got := constant(strings.NewReader(maps), "/usr/bin/kusto-agent"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := constant(strings.NewReader(maps), "/usr/bin/kusto-agent (deleted)"); got != nil {
		t.Errorf("%x of another file", got)
	}
}

// TestKeep: it trims often at first and seldom later, and ends with its context or at an error.
func TestKeep(t *testing.T) {
	for name, ends := range map[string]time.Duration{"by an error": time.Second, "by its context": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began, seconds, trims := time.Now(), 0, 0
				keep(ctx, func() error {
					trims++
					if time.Since(began) <= 2*time.Second {
						seconds++
					}
					if time.Since(began) >= ends {
						return errors.New("none")
					}
					return nil
				})
				switch took := time.Since(began); {
				case ends > time.Hour && (took != time.Hour || seconds != 4 || trims < 60 || trims > 70):
					t.Errorf("%d trims, %d of them in the first two seconds, in %v", trims, seconds, took)
				case ends < time.Hour && took > 2*time.Second:
					t.Errorf("it went on for %v", took)
				}
			})
		})
	}
}
