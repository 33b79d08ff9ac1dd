// Command distance promises what is left of the agent's throughput where each request
// takes its time: MB of input a second by delay and by send.concurrency, to one table
// and to many, with TLS and without, as a table and as a picture.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kusto-agent/bench"
	"kusto-agent/internal/chart"
	"kusto-agent/internal/units"
)

func main() {
	bench.Main()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "distance:", err)
		os.Exit(1)
	}
}

// plan is what is measured.
type plan struct {
	delays []time.Duration
	tables []int
	tls    []bool
	words  []string // send.concurrency
	repeat int
	size   units.Size
	rate   units.Size
	batch  string
	svg    string
}

func flags() (p plan, where, agent string, err error) {
	p.size = 256 * units.MiB
	flag.TextVar(&p.size, "size", p.size, "bytes of input, in all tables together")
	flag.TextVar(&p.rate, "rate", p.rate, "bytes a second that the sink takes; 0: no bound")
	flag.IntVar(&p.repeat, "repeat", 3, "turns of each")
	flag.StringVar(&p.batch, "batch", "max_size: 1MB", "keys of batch")
	flag.StringVar(&p.svg, "svg", "", "folder for a picture of each table (default: none)")
	delays := flag.String("delays", "0,10ms,50ms,200ms", "how long the sink waits with each answer")
	tables := flag.String("tables", "1,50", "numbers of tables")
	tls := flag.String("tls", "false,true", "without TLS, with it")
	words := flag.String("concurrency", "1,8,32,128,auto", "values of send.concurrency")
	flag.StringVar(&where, "dir", "", "where to make a folder for inputs and state, removed at the end (default: that for temporary files)")
	flag.StringVar(&agent, "agent", "", "binary of the agent (default: built from this checkout)")
	flag.Parse()
	p.words = strings.Split(*words, ",")
	p.delays = list("delays", *delays, time.ParseDuration, &err)
	p.tables = list("tables", *tables, strconv.Atoi, &err)
	p.tls = list("tls", *tls, strconv.ParseBool, &err)
	return p, where, agent, err
}

// list returns the values of a flag, with commas between them; err keeps the first error.
func list[T any](flag, text string, parse func(string) (T, error), err *error) (all []T) {
	for word := range strings.SplitSeq(text, ",") {
		v, bad := parse(word)
		if bad != nil && *err == nil {
			*err = fmt.Errorf("%s: %w", flag, bad)
		}
		all = append(all, v)
	}
	return all
}

func measure() error {
	p, where, agent, err := flags()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(where, "kusto-agent-far-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rig, err := bench.NewRig(dir, agent)
	if err != nil {
		return err
	}
	defer rig.Close()
	for _, n := range p.tables {
		in, err := bench.Shape{Files: n, Size: int64(p.size) / int64(n)}.Make(dir)
		if err != nil {
			return err
		}
		for _, secure := range p.tls {
			if err := p.group(rig, in, secure); err != nil {
				return err
			}
		}
	}
	return nil
}

// group measures one table of figures.
func (p plan) group(rig *bench.Rig, in *bench.Input, secure bool) error {
	title := fmt.Sprintf("%d tables", len(in.Paths))
	if len(in.Paths) == 1 {
		title = "one table"
	}
	if secure {
		title += ", TLS"
	}
	fmt.Printf("\n%s, %.0f MB, `batch: {%s}`; %d turns: MB/s, median (least–most)\n\n| `send.concurrency` |", title, float64(in.Bytes)/1e6, p.batch, p.repeat)
	rule := "|---|"
	for _, d := range p.delays {
		fmt.Printf(" %v |", d)
		rule += "---|"
	}
	fmt.Println("\n" + rule)
	c := chart.Chart{Spec: chart.Spec{Kind: chart.Line, Title: "MB/s to " + title, XTitle: "ms a request", YTitle: "MB/s"}}
	rates := make([][][]float64, len(p.words)) // by word, delay, turn
	for i := range rates {
		rates[i] = make([][]float64, len(p.delays))
	}
	for range p.repeat {
		for k, d := range p.delays {
			for i, word := range p.words {
				res, err := rig.Far(in, bench.Away{Delay: d, Rate: int(p.rate), TLS: secure, Batch: p.batch, Send: "concurrency: " + word})
				if err != nil {
					return fmt.Errorf("%s, %v, concurrency %s: %w", title, d, word, err)
				}
				fmt.Fprintf(os.Stderr, "%s, %v, concurrency %s: %.0f MB/s, %.2f CPU-s/GB, %.0f MB\n", title, d, word, res.MBps(), res.CPUPerGB(), res.PeakMB())
				rates[i][k] = append(rates[i][k], res.MBps())
			}
		}
	}
	for i, word := range p.words {
		s := chart.Series{Name: word}
		fmt.Printf("| %s |", word)
		for k, d := range p.delays {
			spread := bench.SpreadOf(p.repeat, func(turn int) float64 { return rates[i][k][turn] })
			fmt.Printf(" %s |", spread.Format(0))
			s.At, s.Y = append(s.At, float64(d)/float64(time.Millisecond)), append(s.Y, spread.Median)
		}
		fmt.Println()
		c.Series = append(c.Series, s)
	}
	if p.svg == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(p.svg, "distance-"+strings.ReplaceAll(strings.ReplaceAll(title, ",", ""), " ", "-")+".svg"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.SVG(f); err != nil {
		return err
	}
	return f.Close()
}
