// Command measure promises the table of BENCHMARKS.md: the agent beside the
// plain limit, in turns, over one large file, a hundred, a thousand, and one
// that is being written; and what crowds of files cost it.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"kusto-agent/bench"
	"kusto-agent/internal/units"
)

func main() {
	bench.Main()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure() error {
	size := units.GiB
	flag.TextVar(&size, "size", size, "bytes of the one large file; the others scale with it")
	repeat := flag.Int("repeat", 5, "turns of each contender")
	shapes := flag.String("shapes", "one,hundred,thousand,live", "what to measure; also idle, fair, few, many, forest: crowds of files, which take a minute or two each")
	live := flag.Duration("live", 20*time.Second, "how long the live tail, or a crowd, is measured")
	where := flag.String("dir", "", "where to make a folder for inputs and state, removed at the end (default: that for temporary files)")
	agent := flag.String("agent", "", "binary of the agent (default: built from this checkout)")
	flag.Parse()
	dir, err := os.MkdirTemp(*where, "kusto-agent-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rig, err := bench.NewRig(dir, *agent)
	if err != nil {
		return err
	}
	defer rig.Close()
	for name := range strings.SplitSeq(*shapes, ",") {
		if many, ok := crowds(*live)[name]; ok {
			err = crowd(rig, many)
		} else if name == "live" {
			err = tail(rig, *live, *repeat)
		} else {
			err = compare(rig, dir, name, int64(size), *repeat)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// shape is one of the three by its name, scaled to size.
func shape(name string, size int64) (bench.Shape, error) {
	const full = 1 << 30
	scale := func(of int64) int64 { return max(of*size/full, 4<<10) }
	switch name {
	case "one":
		return bench.Shape{Name: "one file", Files: 1, Size: size}, nil
	case "hundred":
		return bench.Shape{Name: "100 files", Files: 100, Size: scale(10_000_000)}, nil
	case "thousand":
		return bench.Shape{Name: "1,000 files", Files: 1000, Size: scale(256 << 10)}, nil
	}
	return bench.Shape{}, fmt.Errorf("no such shape; want one, hundred, thousand, live, idle, fair, few, many or forest")
}

func compare(rig *bench.Rig, dir, name string, size int64, turns int) error {
	s, err := shape(name, size)
	if err != nil {
		return err
	}
	in, err := s.Make(dir)
	if err != nil {
		return err
	}
	all := rig.Contenders()
	results, err := bench.Compare(in, all, turns, func(c bench.Contender, r bench.Result) {
		fmt.Fprintf(os.Stderr, "%s: %s: %.0f MB/s, %.2f CPU-s/GB, %.0f MB\n", s.Name, c.Name, r.MBps(), r.CPUPerGB(), r.PeakMB())
	})
	if err != nil {
		return err
	}
	ratio := float64(in.Bytes) / float64(results[0][0].Sink.Body)
	fmt.Printf("\n%s, %.0f MB in %d records of %d B, gzip %.2f; %d turns: median (least–most)\n\n", s.Name,
		float64(in.Bytes)/1e6, in.Records, in.Bytes/int64(in.Records), ratio, turns)
	fmt.Println("| | MB/s | of the limit | CPU-s/GB | times the limit | peak MB | requests |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for i, c := range all {
		fmt.Println(row(c.Name, results[i], results[0]))
	}
	return nil
}

// row sets each turn beside the turn of the limit that came just before.
func row(name string, own, limit []bench.Result) string {
	f := func(figure func(i int) float64, digits int) string {
		return bench.SpreadOf(len(own), figure).Format(digits)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %d |", name,
		f(func(i int) float64 { return own[i].MBps() }, 0),
		f(func(i int) float64 { return own[i].MBps() / limit[i].MBps() }, 2),
		f(func(i int) float64 { return own[i].CPUPerGB() }, 2),
		f(func(i int) float64 { return own[i].CPUPerGB() / limit[i].CPUPerGB() }, 2),
		f(func(i int) float64 { return own[i].PeakMB() }, 0),
		own[len(own)-1].Sink.Requests)
}

// tail measures the agent behind a file that grows by 20 MB a second.
func tail(rig *bench.Rig, length time.Duration, turns int) error {
	const rate = 20_000_000
	fmt.Printf("\nlive tail of one file that grows by %d MB/s, for %v; %d turns: median (least–most)\n\n", rate/1_000_000, length, turns)
	fmt.Println("| | MB/s written | CPU, % of a core | peak MB | s from the last write to the last arrival |")
	fmt.Println("|---|---|---|---|---|")
	for _, validate := range []string{"none", "record"} {
		var all []bench.Live
		for range turns {
			l, err := rig.Live(rate, length, validate)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "live: validate %s: %.1f MB/s, %.1f%% of a core, %.0f MB\n", validate, l.Rate/1e6, 100*l.Cores, float64(l.Peak)/1e6)
			all = append(all, l)
		}
		f := func(figure func(bench.Live) float64, digits int) string {
			return bench.SpreadOf(turns, func(i int) float64 { return figure(all[i]) }).Format(digits)
		}
		fmt.Printf("| agent, `validate: %s` | %s | %s | %s | %s |\n", validate,
			f(func(l bench.Live) float64 { return l.Rate / 1e6 }, 1),
			f(func(l bench.Live) float64 { return 100 * l.Cores }, 1),
			f(func(l bench.Live) float64 { return float64(l.Peak) / 1e6 }, 0),
			f(func(l bench.Live) float64 { return l.Drain.Seconds() }, 2))
	}
	return nil
}
