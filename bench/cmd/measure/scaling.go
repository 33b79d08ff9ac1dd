package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"kusto-agent/bench"
	"kusto-agent/internal/chart"
)

// most is the size of the largest input that lies on the disk as a whole, in bytes. More is
// fed, file by file.
const most = 2e9

// small is the size of an input, in bytes, of which a turn takes so little CPU that it is repeated
// moreTurns times as often as others.
const (
	small     = 100e6
	moreTurns = 7
	atATime   = 500e6 // bytes that come little at a time, in all
)

// step is a shape that scaling measures.
type step struct {
	bench.Shape
	each int64 // >0: fed to an agent that runs, in files of so many bytes
}

// scaled are the shapes that scaling measures, the largest of so many bytes: one file of
// little and of much, little at a time, then as much as lies on the disk in few files and many, for
// one table and many.
func scaled(size int64) (all []step) {
	for _, n := range []int64{10e6, 100e6, 1e9, 10e9} {
		if n = min(n, size); len(all) > 0 && n == all[len(all)-1].Size {
			break
		}
		name := fmt.Sprintf("%d MB, 1 file", n/1e6)
		each := int64(0)
		if n > most {
			name, each = fmt.Sprintf("%d GB, 1 GB a file", n/1e9), 1e9
		}
		all = append(all, step{bench.Shape{Name: name, Files: 1, Size: n}, each})
	}
	if n := min(size, atATime); n > small/10 {
		all = append(all, step{bench.Shape{Name: fmt.Sprintf("%d MB, 10 MB at a time", n/1e6), Files: 1, Size: n}, small / 10})
	}
	some := min(size, most)
	for _, n := range []int{10, 100, 1000} {
		all = append(all, step{Shape: bench.Shape{Name: fmt.Sprintf("%d MB, %d files", some/1e6, n), Files: n, Size: some / int64(n)}})
	}
	for _, n := range []int{10, 50, 200} {
		all = append(all, step{Shape: bench.Shape{Name: fmt.Sprintf("same, %d tables", n), Files: 1000, Size: some / 1000, Routes: n}})
	}
	return all
}

// scaling measures what a byte costs, and how much memory, of little input and of much.
// With a folder it draws both there.
func scaling(rig *bench.Rig, dir, svg string, size int64, turns int) error {
	start, err := startOf(rig, dir, turns*moreTurns)
	if err != nil {
		return err
	}
	fmt.Printf("\na start takes %.1f ms of CPU; %d turns, %d of the start and of what is small, one of what is fed: median (least–most)\n\n", 1000*start, turns, turns*moreTurns)
	fmt.Println("| `validate: none` | CPU-s/GB | without the start | MB/s | peak MB | requests |")
	fmt.Println("|---|---|---|---|---|---|")
	cost := chart.Chart{Spec: chart.Spec{Kind: chart.Bar, Title: "CPU seconds for a GB, validate: none"}, Series: []chart.Series{{Name: "the start"}, {Name: "the rest"}}}
	memory := chart.Chart{Spec: chart.Spec{Kind: chart.Bar, Title: "peak of resident memory, MB, validate: none"}, Series: []chart.Series{{Name: "MB"}}}
	for _, s := range scaled(size) {
		results, err := scale(rig, dir, s, turns)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		f := func(figure func(bench.Result) float64) bench.Spread {
			return bench.SpreadOf(len(results), func(i int) float64 { return figure(results[i]) })
		}
		of := start / (float64(results[0].Bytes) / 1e9)
		all, peak := f(bench.Result.CPUPerGB), f(bench.Result.PeakMB)
		rate := f(bench.Result.MBps).Format(0)
		if s.each > 0 {
			rate = "" // it waited for its files
		}
		row := fmt.Sprintf("| %s | %s | %.2f | %s | %s | %d |", s.Name, all.Format(2), all.Median-of, rate,
			peak.Format(0), results[0].Sink.Requests)
		fmt.Println(row)
		fmt.Fprintln(os.Stderr, row)
		cost.X, memory.X = append(cost.X, s.Name), append(memory.X, s.Name)
		cost.Series[0].Y, cost.Series[1].Y = append(cost.Series[0].Y, of), append(cost.Series[1].Y, all.Median-of)
		memory.Series[0].Y = append(memory.Series[0].Y, peak.Median)
	}
	if svg == "" {
		return nil
	}
	return cmp.Or(draw(&cost, filepath.Join(svg, "scaling.svg")), draw(&memory, filepath.Join(svg, "scaling-memory.svg")))
}

// scale measures the agent over one shape, whose files it removes.
func scale(rig *bench.Rig, dir string, s step, turns int) ([]bench.Result, error) {
	if s.each > 0 {
		res, err := rig.Fed(s.Total(), s.each, "validate: none")
		return []bench.Result{res}, err
	}
	in, err := s.Make(dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(in.Dir)
	if s.Total() <= small {
		turns *= moreTurns
	}
	agent := bench.Contender{Name: s.Name, Run: func(in *bench.Input) (bench.Result, error) { return rig.Agent(in, "validate: none") }}
	results, err := bench.Compare(in, []bench.Contender{agent}, turns, func(bench.Contender, bench.Result) {})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

func draw(c *chart.Chart, path string) error {
	var picture bytes.Buffer
	if err := c.SVG(&picture); err != nil {
		return err
	}
	return os.WriteFile(path, picture.Bytes(), 0o644)
}

// startOf is the CPU time, in seconds, of a run with next to nothing to read.
func startOf(rig *bench.Rig, dir string, turns int) (float64, error) {
	in, err := bench.Shape{Name: "start", Files: 1, Size: 1000}.Make(dir)
	if err != nil {
		return 0, err
	}
	var all []bench.Result
	for range turns {
		res, err := rig.Agent(in, "validate: none")
		if err != nil {
			return 0, err
		}
		all = append(all, res)
	}
	return bench.SpreadOf(len(all), func(i int) float64 { return all[i].CPU.Seconds() }).Median, nil
}
