package bench

import (
	"cmp"
	"fmt"
	"slices"
)

// Contender is something to measure over an input.
type Contender struct {
	Name   string
	Run    func(*Input) (Result, error)
	Beside int // index of the one whose turn just before it is set beside
}

// Contenders are the limit, which the others are set beside, the agent without
// and with its check of records, the agent with every payload in the spool before it
// is posted, and the bare cost of gzip. Where there is another agent it has its
// turns before those of the rig's own.
func (r *Rig) Contenders(other *Rig) []Contender {
	all := []Contender{{Name: "limit: two workers, posted", Run: func(in *Input) (Result, error) { return r.Limit(in, 2, true) }}}
	for _, way := range []struct {
		name string
		keys []string
	}{
		{"agent, `validate: none`", []string{"validate: none"}},
		{"agent, `validate: record`", []string{"validate: record"}},
		{"the same, `durability: spool`", []string{"validate: record", "durability: spool"}},
	} {
		all = append(all, r.agents(other, way.name, func(agent *Rig, in *Input) (Result, error) { return agent.Agent(in, way.keys...) })...)
	}
	return append(all, Contender{Name: "limit: one thread, dropped", Run: func(in *Input) (Result, error) { return r.Limit(in, 1, false) }})
}

// agents are the rig's own agent and, before it, another one where there is one.
func (r *Rig) agents(other *Rig, name string, run func(*Rig, *Input) (Result, error)) (all []Contender) {
	if other != nil {
		all = append(all, Contender{Name: "before: " + name, Run: func(in *Input) (Result, error) { return run(other, in) }})
	}
	return append(all, Contender{Name: name, Run: func(in *Input) (Result, error) { return run(r, in) }})
}

// WithTLS are the contenders, and after them those that post once more over TLS, which are
// set beside the limit over TLS.
func (r *Rig) WithTLS(other *Rig) []Contender {
	all := r.Contenders(other)
	plain := len(all)
	if other != nil {
		other = other.Secure()
	}
	for _, c := range r.Secure().Contenders(other)[:plain-1] {
		c.Name, c.Beside = "TLS, "+c.Name, plain
		all = append(all, c)
	}
	return all
}

// Shaped are agents with rules, over an input that is Traced: the first has none, and the
// others are set beside it. Where there is another agent it has its turns before those of
// the rig's own.
func (r *Rig) Shaped(other *Rig) (all []Contender) {
	for _, way := range []struct {
		name string
		rule string
		sent func(*Input) *Input
	}{
		{"no rules", "", func(in *Input) *Input { return in }},
		{"`drop` 1% by member", "drop: [{member: level, in: [trace]}]", func(in *Input) *Input { return in.Without("trace") }},
		{"`drop` 1% by literal", `drop: [{match: '"level":"trace"'}]`, func(in *Input) *Input { return in.Without("trace") }},
		{"`drop` 1% by expression", `drop: [{match: '"level": ?"(trace|verbose)"'}]`, func(in *Input) *Input { return in.Without("trace") }},
		{"`drop` 90%", "drop: [{member: level, in: [trace, debug, info, warn]}]", func(in *Input) *Input { return in.Without("trace", "debug", "info", "warn") }},
		{"`redact` a member of each", "redact: [{member: user, with: '***'}]", (*Input).Changed},
	} {
		keys := []string{"validate: record"}
		if way.rule != "" {
			keys = append(keys, way.rule)
		}
		all = append(all, r.agents(other, way.name, func(agent *Rig, in *Input) (Result, error) { return agent.Agent(way.sent(in), keys...) })...)
	}
	return all
}

// Compare lets the contenders take turns over an input, and returns the
// results of each, by turn. Each turn is handed to progress as it ends.
func Compare(in *Input, contenders []Contender, turns int, progress func(Contender, Result)) ([][]Result, error) {
	if err := in.warm(); err != nil {
		return nil, err
	}
	results := make([][]Result, len(contenders))
	for range turns {
		for i, c := range contenders {
			res, err := c.Run(in)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			progress(c, res)
			results[i] = append(results[i], res)
		}
	}
	return results, nil
}

// Spread is the median of some figures, the least and the most.
type Spread struct{ Median, Min, Max float64 }

// SpreadOf takes figure i of n. Of an even number the median is the lower of
// the two in the middle.
func SpreadOf(n int, figure func(i int) float64) Spread {
	all := make([]float64, n)
	for i := range all {
		all[i] = figure(i)
	}
	slices.SortFunc(all, cmp.Compare)
	return Spread{all[(n-1)/2], all[0], all[n-1]}
}

// Format shows the spread with so many digits behind the point.
func (s Spread) Format(digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.Median, digits, s.Min, digits, s.Max)
}
