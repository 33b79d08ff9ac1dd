package pipeline

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/format"
	"kusto-agent/internal/rules"
)

// Tryout is what the rules and patterns of an input do with the beginning of its newest
// files.
type Tryout struct {
	Files   int
	Records int // that were asked: those that are sound
	Misfits int // of them, that are not as parse or inner says
	Asked   []Asked
}

// Asked is a condition of keep, a rule of drop or redact, a member to remove, a pattern
// or the first line of an event.
type Asked struct {
	Key        string // in the input, such as drop[0]
	Name       string // of a rule
	Holds      int    // of so many records it holds by itself
	Acts       int    // of so many it decides, behind the others
	Before     string // the reason by which most of those are left out of which it holds; empty: none is
	NoMember   bool   // no record has its member
	Expression string // regular expression; empty: it has none
	Rate       int64  // bytes of records a second that the expression was matched with here
}

// probe is one of them at work.
type probe struct {
	Asked
	scan   *format.Scanner // leaves out what it holds of
	kind   probeKind
	member *format.Scanner // leaves out what has the member
	found  bool            // a record has it
	before map[string]int
}

// probeKind is what a probe stands for, and so what its scanner does.
type probeKind uint8

const (
	ofKeep    probeKind = iota // it leaves out what it holds of
	ofDrop                     // too
	ofPattern                  // it takes apart what it matches, and leaves out the rest
	ofChange                   // it changes what it holds of
)

// How much a tryout looks at.
const (
	tryFiles   = 3
	tryRecords = 3000 // of a file
	tryText    = 256 << 10
	tryTime    = 20 * time.Millisecond // for each expression
)

// TryOut applies each rule and each pattern of an input to the records of its newest files, by
// itself and after the others, and counts. The result is nil, without an error, if the input has
// neither and parses nothing that could fail.
func TryOut(ctx context.Context, in *config.Input) (*Tryout, error) {
	probes, err := probesOf(in)
	parse, _ := format.ParseOf(in.Parse)
	inner, _ := format.InnerOf(in.Inner)
	if err != nil || len(probes) == 0 && !parse.Taken(inner).Parsed() {
		return nil, err
	}
	files, err := Newest(in)
	if err != nil {
		return nil, err
	}
	all := &Tryout{}
	var text [][]byte
	for _, file := range files[:min(len(files), tryFiles)] {
		n, err := all.file(ctx, in, file, probes, &text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
		if n > 0 {
			all.Files++
		}
	}
	for _, p := range probes {
		p.NoMember = p.member != nil && !p.found && all.Records > 0
		for _, reason := range slices.Sorted(maps.Keys(p.before)) {
			if p.before[reason] > p.before[p.Before] {
				p.Before = reason
			}
		}
		if p.Expression != "" {
			p.Rate = rateOf(p.Expression, text)
		}
		all.Asked = append(all.Asked, p.Asked)
	}
	return all, nil
}

// probesOf returns a probe for each rule and each pattern of an input: a scanner of an input that
// has only this rule or pattern. The error is the first of those that making the scanners had.
func probesOf(in *config.Input) (all []*probe, err error) {
	alone := func(change func(*config.Input)) *format.Scanner {
		one := *in
		one.Keep, one.Drop, one.Sample, one.Fields = nil, nil, nil, nil
		one.Redact, one.Rename, one.Remove, one.Add = nil, nil, nil, nil
		change(&one)
		o, bad := one.Tail().ScanOptions()
		var scan *format.Scanner
		if bad == nil {
			scan, bad = format.New(o)
		}
		if err == nil {
			err = bad
		}
		return scan
	}
	add := func(kind probeKind, key, name, expression, member string, change func(*config.Input)) {
		p := &probe{Asked: Asked{Key: key, Name: name, Expression: expression}, kind: kind, scan: alone(change), before: make(map[string]int)}
		if member != "" {
			p.member = alone(func(one *config.Input) {
				one.Drop = []rules.Rule{{Condition: rules.Condition{Member: member, Match: `(?s).*`}}}
			})
		}
		all = append(all, p)
	}
	for i, c := range in.Keep {
		add(ofKeep, fmt.Sprintf("keep[%d]", i), "", c.Match, c.Member, func(one *config.Input) { one.Drop = []rules.Rule{{Condition: c}} })
	}
	for i, r := range in.Drop {
		add(ofDrop, fmt.Sprintf("drop[%d]", i), rules.NameOf("drop", i, r.Name), r.Match, r.Member, func(one *config.Input) { one.Drop = []rules.Rule{{Condition: r.Condition}} })
	}
	for i, r := range in.Redact {
		add(ofChange, fmt.Sprintf("redact[%d]", i), rules.NameOf("redact", i, r.Name), r.Match, r.Member, func(one *config.Input) { one.Redact = []rules.Redaction{r} })
	}
	for i, text := range in.Pattern {
		p := &probe{Asked: Asked{Key: fmt.Sprintf("pattern[%d]", i), Expression: text}, kind: ofPattern}
		p.scan = alone(func(one *config.Input) {
			one.Pattern, one.OnError, one.Types = []string{text}, "drop", nil
			re, err := regexp.Compile(text)
			if err != nil {
				return
			}
			for name, typ := range in.Types {
				if re.SubexpIndex(name) > 0 {
					if one.Types == nil {
						one.Types = make(map[string]string)
					}
					one.Types[name] = typ
				}
			}
			if in.Time != nil && re.SubexpIndex(in.Time.Member) < 0 {
				one.Time = nil
			}
		})
		all = append(all, p)
	}
	if m := in.Multiline; m != nil && m.Start != "" {
		all = append(all, &probe{Asked: Asked{Key: "multiline.start", Expression: m.Start}})
	}
	return all, err
}

// file applies the probes to up to tryRecords records of one file and counts what they hold of.
// It adds records to text, up to a limit of bytes, to measure expressions with. It returns how
// many records it asked about.
func (t *Tryout) file(ctx context.Context, in *config.Input, file string, probes []*probe, text *[][]byte) (records int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	stamp := format.Stamp{Path: file, Dated: time.Now().UnixNano()}
	bytes := 0
	for _, b := range *text {
		bytes += len(b)
	}
	trial, err := NewTrial(in, file, func(one *Tried) error {
		if one.source == nil {
			return nil // a record that is rejected whatever the rules say
		}
		if bytes += len(one.Before); bytes <= tryText {
			*text = append(*text, slices.Clone(one.Before))
		}
		var held [ofChange + 1]bool // by kind: a probe before this one holds
		for _, p := range probes {
			if p.scan == nil {
				continue
			}
			p.scan.SetStamp(stamp)
			holds := p.holds(p.scan, one)
			if p.member != nil && !p.found {
				p.member.SetStamp(stamp)
				p.found = p.holds(p.member, one)
			}
			if !holds {
				continue
			}
			p.Holds++
			switch p.kind {
			case ofKeep, ofPattern:
				if !held[p.kind] {
					p.Acts++
				}
				held[p.kind] = true
			case ofDrop, ofChange:
				if slices.Contains(one.LeftOut, p.Name) || slices.Contains(one.ChangedBy, p.Name) {
					p.Acts++
					continue
				}
				for _, reason := range one.LeftOut {
					p.before[reason]++
				}
			}
		}
		if records++; one.Unparsed || slices.Contains(one.LeftOut, "unmatched") || one.Message != "" {
			t.Misfits++
		}
		if records >= tryRecords {
			return ErrEnough
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, p := range probes {
		for _, scan := range []*format.Scanner{p.scan, p.member} {
			if scan != nil {
				trial.also = append(trial.also, scan)
			}
		}
	}
	err = trial.Run(ctx, f)
	t.Records += records
	return records, err
}

// holds reports whether the probe's rule or pattern holds for a record: whether the scanner
// filters, parses or changes it. scan is p.scan, or p.member, which filters each record that has
// the rule's member.
func (p *probe) holds(scan *format.Scanner, one *Tried) bool {
	var c format.Chunk
	// A copy with a byte to spare: Scan may change the data and write a newline behind it.
	scan.Scan(slices.Concat(one.source, []byte{0})[:len(one.source)], one.Start, true, 0, &c)
	switch p.kind {
	case ofPattern:
		return c.Records > 0 && c.Unmatched == 0
	case ofChange:
		if scan == p.scan {
			return len(c.Changed) > 0 && c.Changed[0] > 0
		}
	}
	return len(c.Filtered) > 0 && c.Filtered[0] > 0
}

// rateOf measures for a short while how many bytes of records an expression matches per
// second; 0: there is no text.
func rateOf(expression string, text [][]byte) int64 {
	re, err := regexp.Compile(expression)
	if err != nil || len(text) == 0 {
		return 0
	}
	var n int64
	start := time.Now()
	for time.Since(start) < tryTime {
		for _, b := range text[:min(len(text), 1000)] {
			re.Match(b)
			n += int64(len(b)) + 1
		}
	}
	return int64(float64(n) / time.Since(start).Seconds())
}
