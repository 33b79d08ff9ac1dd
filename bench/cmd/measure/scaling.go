package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"kusto-agent/bench"
	"kusto-agent/internal/chart"
)

// scaling measures what a byte costs of little input and of much, in few files and
// in many, for one table and for many. With a path it draws that there.
func scaling(rig *bench.Rig, dir, plot string, size int64, turns int) error {
	some := size / 8
	shapes := []bench.Shape{
		{Name: "10 MB in 1 file", Files: 1, Size: 10_000_000},
		{Name: "100 MB in 1 file", Files: 1, Size: 100_000_000},
		{Name: fmt.Sprintf("%d MB in 1 file", size/1e6), Files: 1, Size: size},
	}
	for _, n := range []int{1, 10, 100, 1000} {
		name := fmt.Sprintf("%d MB in %d files", some/1e6, n)
		if n == 1 {
			name = strings.TrimSuffix(name, "s")
		}
		shapes = append(shapes, bench.Shape{Name: name, Files: n, Size: some / int64(n)})
	}
	for _, n := range []int{10, 50, 200} {
		shapes = append(shapes, bench.Shape{Name: fmt.Sprintf("the same for %d tables", n), Files: 1000, Size: some / 1000, Routes: n})
	}
	start, err := startOf(rig, dir, turns)
	if err != nil {
		return err
	}
	fmt.Printf("\na start takes %.0f ms of CPU; %d turns: median (least–most)\n\n", 1000*start, turns)
	fmt.Println("| `validate: none` | CPU-s/GB | without the start | MB/s | peak MB | requests |")
	fmt.Println("|---|---|---|---|---|---|")
	c := &chart.Chart{Spec: chart.Spec{Kind: chart.Bar, Title: "CPU seconds for a GB, validate: none"}, Series: []chart.Series{{Name: "the start"}, {Name: "the rest"}}}
	for _, s := range shapes {
		in, err := s.Make(dir)
		if err != nil {
			return err
		}
		agent := bench.Contender{Name: s.Name, Run: func(in *bench.Input) (bench.Result, error) { return rig.Agent(in, "validate: none") }}
		results, err := bench.Compare(in, []bench.Contender{agent}, turns, func(bench.Contender, bench.Result) {})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		f := func(figure func(bench.Result) float64) bench.Spread {
			return bench.SpreadOf(turns, func(i int) float64 { return figure(results[0][i]) })
		}
		of := start / (float64(in.Bytes) / 1e9)
		all := f(bench.Result.CPUPerGB)
		row := fmt.Sprintf("| %s | %s | %.2f | %s | %s | %d |", s.Name, all.Format(2), all.Median-of, f(bench.Result.MBps).Format(0),
			f(bench.Result.PeakMB).Format(0), results[0][0].Sink.Requests)
		fmt.Println(row)
		fmt.Fprintln(os.Stderr, row)
		c.X = append(c.X, s.Name)
		c.Series[0].Y, c.Series[1].Y = append(c.Series[0].Y, of), append(c.Series[1].Y, all.Median-of)
		if err := os.RemoveAll(in.Dir); err != nil {
			return err
		}
	}
	if plot == "" {
		return nil
	}
	var picture bytes.Buffer
	if err := c.SVG(&picture); err != nil {
		return err
	}
	return os.WriteFile(plot, picture.Bytes(), 0o644)
}

// startOf is the CPU time, in seconds, of a run with next to nothing to read.
func startOf(rig *bench.Rig, dir string, turns int) (float64, error) {
	in, err := bench.Shape{Name: "start", Files: 1, Size: 1000}.Make(dir)
	if err != nil {
		return 0, err
	}
	var all []bench.Result
	for range 2*turns + 1 {
		res, err := rig.Agent(in, "validate: none")
		if err != nil {
			return 0, err
		}
		all = append(all, res)
	}
	return bench.SpreadOf(len(all), func(i int) float64 { return all[i].CPU.Seconds() }).Median, nil
}
