package telemetry

import "fmt"

// stage is one box in the picture of the way of the records.
type stage struct {
	Name   string
	Figure string   // the figure that matters most there
	Of     string   // what it counts
	Notes  []string // less important ones
	Fill   float64  // how full it is, from 0 to 1; negative: it has no bound
	Tone   string   // good, wait, bad; empty: nothing to say
}

// flow is the way of the records: from the files by batches and requests to the
// service, with what branches off.
type flow struct {
	Files, Batches, Requests, Service stage
	Quarantine, Spool                 stage
	Dropped                           *stage // nil: nothing was
}

const nearlyFull = 0.9

// flowOf draws a status.
func flowOf(s *Status) flow {
	t := sum(s)
	f := flow{
		Files:    filesStage(s, t),
		Batches:  stage{Name: "Batches", Figure: countText(t.Pending), Of: unit(t.Pending, "record pending", "records pending"), Fill: -1},
		Requests: requestsStage(s),
		Service:  serviceStage(s, t),
		Spool:    spoolStage(s, t),
		Quarantine: stage{
			Name: "Quarantine", Figure: countText(t.Quarantined), Of: unit(t.Quarantined, "record refused", "records refused") + " since the start",
			Fill: part(s.Quarantine.Bytes, s.Quarantine.MaxBytes),
		},
	}
	queued := 0
	for _, r := range s.Routes {
		queued += r.Queued
	}
	f.Batches.Notes = []string{number(queued, "payload", "payloads") + " queued"}
	q := &f.Quarantine
	if q.Notes = []string{bytesText(s.Quarantine.Bytes) + " kept"}; s.Quarantine.MaxBytes > 0 {
		q.Notes = []string{bytesText(s.Quarantine.Bytes) + " of " + bytesText(s.Quarantine.MaxBytes)}
	}
	switch {
	case s.Quarantine.Error != "" || q.Fill >= nearlyFull:
		q.Tone = "bad"
	case s.Quarantine.Bytes > 0 || t.Quarantined > 0:
		q.Tone = "wait"
	}
	if t.Dropped > 0 {
		f.Dropped = &stage{Name: "Dropped", Figure: countText(t.Dropped), Of: unit(t.Dropped, "record lost", "records lost") + " since the start", Fill: -1, Tone: "bad"}
	}
	return f
}

func filesStage(s *Status, t sums) stage {
	files, unreadable := 0, 0
	for _, in := range s.Inputs {
		for _, n := range in.Files {
			files += n
		}
	}
	for _, f := range s.Files {
		if f.Fix != "" {
			unreadable++
		}
	}
	out := stage{Name: "Files", Figure: rateText(s.Rates.Read), Of: "records read", Fill: -1,
		Notes: []string{number(files, "file", "files") + ", " + bytesText(t.Lag) + " behind"}}
	if unreadable > 0 {
		out.Tone = "bad"
		out.Notes = append(out.Notes, number(unreadable, "file needs", "files need")+" a person")
	}
	return out
}

func requestsStage(s *Status) stage {
	under, most, retrying := 0, 0, 0
	for _, c := range s.Clusters {
		under += c.InFlight
		most += c.Concurrency
	}
	for _, r := range s.Routes {
		if r.State == Retrying {
			retrying++
		}
	}
	out := stage{Name: "Requests", Figure: fmt.Sprint(under), Of: "in flight", Fill: part(int64(under), int64(most))}
	if most > 0 {
		out.Of = fmt.Sprintf("of %d in flight", most)
	}
	if s.Rates.Delay > 0 {
		out.Notes = append(out.Notes, secondsText(s.Rates.Delay)+" from read to accepted")
	}
	if retrying > 0 {
		out.Tone = "wait"
		out.Notes = append(out.Notes, number(retrying, "route", "routes")+" trying again")
	}
	return out
}

func serviceStage(s *Status, t sums) stage {
	out := stage{Name: "Service", Figure: rateText(s.Rates.Accepted), Of: "records accepted", Fill: -1,
		Notes: []string{bytesText(int64(s.Rates.Bytes)) + "/s, " + countText(t.Accepted) + " records since the start"}}
	count := map[string]int{}
	for _, r := range s.Routes {
		count[r.State]++
	}
	for _, state := range []string{Held, Down} {
		if n := count[state]; n > 0 {
			out.Tone = "bad"
			out.Notes = append(out.Notes, number(n, "route", "routes")+" "+state)
		}
	}
	if out.Tone == "" && count[Up] > 0 {
		out.Tone = "good"
	}
	return out
}

func spoolStage(s *Status, t sums) stage {
	if s.Spool == nil {
		return stage{Name: "Spool", Figure: "off", Of: "the files are the buffer", Fill: -1}
	}
	out := stage{Name: "Spool", Figure: countText(t.Spooled), Of: unit(t.Spooled, "record waits", "records wait") + " on disk", Fill: part(s.Spool.Bytes, s.Spool.MaxBytes)}
	out.Notes = []string{bytesText(s.Spool.Bytes) + " kept"}
	if s.Spool.MaxBytes > 0 {
		out.Notes = []string{bytesText(s.Spool.Bytes) + " of " + bytesText(s.Spool.MaxBytes)}
	}
	switch {
	case s.Spool.Error != "" || out.Fill >= nearlyFull:
		out.Tone = "bad"
	case s.Spool.Payloads > 0:
		out.Tone = "wait"
	}
	return out
}

// part is how much of a bound is taken; negative where there is none.
func part(n, most int64) float64 {
	if most <= 0 {
		return -1
	}
	return min(max(float64(n)/float64(most), 0), 1)
}

// unit is the word for a number of things that is written elsewhere.
func unit(n uint64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
