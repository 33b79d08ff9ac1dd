package main

import (
	"fmt"
	"os"
	"time"

	"kusto-agent/bench"
)

// crowds are shapes of many files, by name. Each is accounted for over length,
// after files that rest have come to rest.
func crowds(length time.Duration) map[string][]bench.Crowd {
	rest := 15 * time.Second // a file is looked at often for 10 s
	of := func(name string, c bench.Crowd) []bench.Crowd {
		c.Length = length
		var both []bench.Crowd
		for _, c.Watch = range []string{"auto", "poll"} {
			c.Name = name + ", `watch: " + c.Watch + "`"
			both = append(both, c)
		}
		return both
	}
	scant := func(name string, c bench.Crowd) bench.Crowd {
		c.Name, c.Length, c.Watch, c.Memory, c.Settle = name+", `memory: 32MiB`", length, "auto", "32MiB", rest
		return c
	}
	return map[string][]bench.Crowd{
		"resting": {scant("200,000 files of one line", bench.Crowd{Idle: 200_000})},
		"scant": {
			scant("60,000 files", bench.Crowd{Idle: 60_000}),
			scant("60,000 files, 20 born", bench.Crowd{Idle: 60_000, Born: 20}),
			scant("60,000 files, 20 born after a restart", bench.Crowd{Idle: 60_000, Born: 20, Again: true}),
		},
		"idle":   of("10,000 idle files", bench.Crowd{Idle: 10_000, Settle: rest}),
		"fair":   of("1,000 active files and one that is never read to its end", bench.Crowd{Active: 1000, Full: true, Settle: 3 * time.Second}),
		"few":    of("100 active files and one that is never read to its end", bench.Crowd{Active: 100, Full: true, Settle: 3 * time.Second}),
		"many":   of("50,000 files, 100 of them active, 20 born", bench.Crowd{Idle: 49_900, Active: 100, Born: 20, Settle: rest}),
		"forest": of("10 active files in a tree of 1,000,000 names that do not match, 5 born", bench.Crowd{Active: 10, Others: 1_000_000, Born: 5, Settle: 3 * time.Second}),
	}
}

// crowd measures shapes of many files, once each.
func crowd(rig *bench.Rig, all []bench.Crowd) error {
	fmt.Printf("\nover %v; one turn\n\n", all[0].Length)
	fmt.Println("| | taken up in s | CPU, % of a core | resident MB | peak MB | descriptors | MB/s of the full file | delay p50, p99, most |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, c := range all {
		st, err := rig.Crowd(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		short := func(part float64) time.Duration { return st.Delay(part).Round(10 * time.Millisecond) }
		row := fmt.Sprintf("| %s | %.1f | %.2f | %.0f | %.0f | %d | %.0f | %v, %v, %v |", c.Name, st.Taken.Seconds(), 100*st.Cores,
			float64(st.Resident)/1e6, float64(st.Peak)/1e6, st.Descriptors, st.FullRate/1e6, short(0.5), short(0.99), short(1))
		fmt.Println(row)
		fmt.Fprintln(os.Stderr, row)
	}
	return nil
}
