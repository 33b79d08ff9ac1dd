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
	shapes := flag.String("shapes", "one,hundred,thousand,live,trickle", "what to measure; also tables: a thousand files for 200 tables; rules: agents that leave records out or change them; scaling: little and much input, in few files and many, for one table and many; and idle, fair, few, many, forest, resting, scant: crowds of files, which take a minute or two each")
	live := flag.Duration("live", 20*time.Second, "how long the live tail, or a crowd, is measured")
	where := flag.String("dir", "", "where to make a folder for inputs and state, removed at the end (default: that for temporary files)")
	agent := flag.String("agent", "", "binary of the agent (default: built from this checkout)")
	svg := flag.String("svg", "", "folder for pictures of scaling (default: none)")
	secure := flag.Bool("tls", false, "limit and agents over TLS too, in the same turns")
	against := flag.String("against", "", "another binary of the agent, which takes turns with the first: what a change costs or saves")
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
	var other *bench.Rig
	if *against != "" {
		other = rig.With(*against)
	}
	for name := range strings.SplitSeq(*shapes, ",") {
		if many, ok := crowds(*live)[name]; ok {
			err = crowd(rig, many)
		} else if name == "scaling" {
			err = scaling(rig, dir, *svg, int64(size), *repeat)
		} else if name == "live" || name == "trickle" {
			err = tail(rig, other, name, *live, *repeat)
		} else {
			err = compare(rig, other, *secure, dir, name, int64(size), *repeat)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// shape is one of those by its name, scaled to size.
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
	case "tables":
		return bench.Shape{Name: "1,000 files for 200 tables", Files: 1000, Size: scale(256 << 10), Routes: 200}, nil
	case "rules":
		return bench.Shape{Name: "one file, rules", Files: 1, Size: size, Traced: true}, nil
	}
	return bench.Shape{}, fmt.Errorf("no such shape; want one, hundred, thousand, tables, rules, live, trickle, scaling, idle, fair, few, many, forest, resting or scant")
}

func compare(rig, other *bench.Rig, secure bool, dir, name string, size int64, turns int) error {
	s, err := shape(name, size)
	if err != nil {
		return err
	}
	in, err := s.Make(dir)
	if err != nil {
		return err
	}
	all, beside := rig.Contenders(other), "the limit"
	if secure {
		all = rig.WithTLS(other)
	}
	if s.Traced {
		all, beside = rig.Shaped(other), "no rules"
	}
	results, err := bench.Compare(in, all, turns, func(c bench.Contender, r bench.Result) {
		fmt.Fprintf(os.Stderr, "%s: %s: %.0f MB/s, %.2f CPU-s/GB, %.0f MB\n", s.Name, c.Name, r.MBps(), r.CPUPerGB(), r.PeakMB())
	})
	if err != nil {
		return err
	}
	ratio := float64(in.Bytes) / float64(results[0][0].Sink.Body)
	fmt.Printf("\n%s, %.0f MB in %d records of %d B, gzip %.2f; %d turns: median (least–most)\n\n", s.Name,
		float64(in.Bytes)/1e6, in.Records, in.Bytes/int64(in.Records), ratio, turns)
	fmt.Printf("| | MB/s | of %s | CPU-s/GB | times %s | peak MB | requests |\n", beside, beside)
	fmt.Println("|---|---|---|---|---|---|---|")
	for i, c := range all {
		fmt.Println(row(c.Name, results[i], results[c.Beside]))
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

// growing are shapes of files that are being written, by name.
var growing = map[string]struct {
	title string
	bench.Live
}{
	"live":    {"one file that grows by 20 MB/s in writes of 8 KiB", bench.Live{Files: 1, Rate: 20_000_000, Write: 8 << 10}},
	"trickle": {"1,000 files that grow by 20 kB/s each, in writes of 4 KiB", bench.Live{Files: 1000, Rate: 20_000_000, Write: 4 << 10}},
}

// tail measures the agent behind files that grow.
func tail(rig, other *bench.Rig, name string, length time.Duration, turns int) error {
	shape := growing[name]
	shape.Length = length
	fmt.Printf("\n%s, for %v; %d turns: median (least–most)\n\n", shape.title, length, turns)
	fmt.Println("| | MB/s written | CPU, % of a core | peak MB | delay p50, ms | delay p99, ms |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, keys := range [][]string{
		{"validate: none"}, {"validate: record"}, {"validate: none", "batch: {max_wait: 50ms}"}, {"validate: record", "batch: {max_wait: 50ms}"},
	} {
		shape.Keys = keys
		agents := []*bench.Rig{rig}
		if other != nil {
			agents = []*bench.Rig{other, rig}
		}
		all := make([][]bench.Tailed, len(agents))
		for range turns {
			for i, agent := range agents {
				t, err := agent.Live(shape.Live)
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%s: %s: %.1f MB/s, %.1f%% of a core, %.0f MB, delay %v, %v\n", name, strings.Join(keys, ", "),
					t.Rate/1e6, 100*t.Cores, float64(t.Peak)/1e6, t.Delay(0.5), t.Delay(0.99))
				all[i] = append(all[i], t)
			}
		}
		for i := range agents {
			f := func(figure func(bench.Tailed) float64, digits int) string {
				return bench.SpreadOf(turns, func(turn int) float64 { return figure(all[i][turn]) }).Format(digits)
			}
			title := "agent, `" + strings.Join(keys, "`, `") + "`"
			if i < len(agents)-1 {
				title = "before: " + title
			}
			ms := func(part float64) string {
				return f(func(t bench.Tailed) float64 { return float64(t.Delay(part).Microseconds()) / 1e3 }, 0)
			}
			fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", title,
				f(func(t bench.Tailed) float64 { return t.Rate / 1e6 }, 1),
				f(func(t bench.Tailed) float64 { return 100 * t.Cores }, 1),
				f(func(t bench.Tailed) float64 { return float64(t.Peak) / 1e6 }, 0),
				ms(0.5), ms(0.99))
		}
	}
	return nil
}
