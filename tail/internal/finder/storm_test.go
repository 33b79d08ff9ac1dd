package finder

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStorm: files are written to and renamed, folders made, renamed and removed, and a link led elsewhere, as fast
// as possible, while watches are updated and the instances of inotify change. After each storm events of all folders
// are heard.
func TestStorm(t *testing.T) {
	t.Parallel()
	storms, steps := 4, 500
	if os.Getenv("KUSTO_AGENT_LONG") != "" {
		storms, steps = 40, 5000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range storms {
		t.Run(fmt.Sprint(n), func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, uint64(n))), steps) })
	}
}

func storm(t *testing.T, random *rand.Rand, steps int) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	var folders []string
	for i := range 6 {
		folders = append(folders, filepath.Join(dir, fmt.Sprint("folder", i)))
	}
	all := append([]string{link}, folders...)
	e := make(ears, 10_000)
	w := NewWatcher(hears(func(told []Event) { // ears get what is told of probes alone: nobody takes the rest
		e.Heard(slices.DeleteFunc(slices.Clone(told), func(x Event) bool { return !strings.HasPrefix(filepath.Base(x.Path), "probe.") }))
	}), slog.New(slog.DiscardHandler))
	w.SetPause(time.Millisecond)
	update(w, all...)
	run(t, w)

	var over, updates sync.WaitGroup
	for range 3 {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		over.Go(func() {
			for range steps {
				disturb(r, folders, link)
			}
		})
	}
	stop := make(chan struct{})
	updates.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				update(w, all...)
				w.Also(map[string]bool{dir: true})
			}
		}
	})
	over.Wait()
	close(stop)
	updates.Wait()
	for _, folder := range folders {
		must(t, os.MkdirAll(folder, 0o755))
	}
	update(w, all...)
	for _, folder := range folders {
		e.probe(t, folder, folder)
	}
}

// disturb does one thing to the folders, a file in them or the link. That there is nothing to do it to is no error.
func disturb(r *rand.Rand, folders []string, link string) {
	one, other := folders[r.IntN(len(folders))], folders[r.IntN(len(folders))]
	file := filepath.Join(one, fmt.Sprint(r.IntN(5)))
	switch r.IntN(20) {
	case 0:
		_ = os.RemoveAll(one)
	case 1, 2:
		_ = os.Mkdir(one, 0o755)
	case 3:
		_ = os.Rename(one, other)
	case 4:
		fresh := fmt.Sprint(link, r.Uint64())
		_ = os.Symlink(one, fresh)
		_ = os.Rename(fresh, link)
	case 5, 6, 7:
		_ = os.Rename(file, filepath.Join(other, fmt.Sprint(r.IntN(5))))
	default:
		if f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err == nil {
			_, _ = f.WriteString("line\n")
			f.Close()
		}
	}
}
