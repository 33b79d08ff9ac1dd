package telemetry

import "fmt"

// Stage is one box in the picture of the way of the records.
type Stage struct {
	Name   string
	Figure string   // the figure that matters most there
	Of     string   // what it counts
	Brief  string   // Of in a word or two
	Notes  []string // less important ones
	Fill   float64  // how full it is, from 0 to 1; negative: it has no bound
	Tone   string   // good, wait, bad; empty: nothing to say
}

// Flow is the way of the records: from the files by batches and requests to the
// service, with what branches off.
type Flow struct {
	Files, Batches, Requests, Service Stage
	Quarantine, Spool                 Stage
	Dropped                           *Stage // nil: nothing was
}

const nearlyFull = 0.9

// FlowOf returns the diagram at the top of the status page: boxes for files, batches, requests,
// service, spool and quarantine, each with its main figure from the status.
func FlowOf(s *Status) Flow {
	t := sumUp(s)
	f := Flow{
		Files:    filesStage(s, t),
		Batches:  Stage{Name: "Batches", Figure: CountText(t.Pending), Of: unit(t.Pending, "record pending", "records pending"), Brief: "pending", Fill: -1},
		Requests: requestsStage(s),
		Service:  serviceStage(s, t),
		Spool:    spoolStage(s, t),
		Quarantine: Stage{
			Name: "Quarantine", Figure: CountText(t.Quarantined), Of: unit(t.Quarantined, "record refused", "records refused") + " since the start", Brief: "refused",
		},
	}
	queued := 0
	for _, r := range s.Routes {
		queued += r.Queued
	}
	f.Batches.Notes = []string{number(queued, "payload", "payloads") + " queued"}
	f.Quarantine.keeps(s.Quarantine.Bytes, s.Quarantine.MaxBytes, s.Quarantine.Bytes > 0 || t.Quarantined > 0, s.Quarantine.Error)
	if t.Dropped > 0 {
		f.Dropped = &Stage{Name: "Dropped", Figure: CountText(t.Dropped), Of: unit(t.Dropped, "record lost", "records lost") + " since the start", Brief: "lost", Fill: -1, Tone: "bad"}
	}
	return f
}

// filesStage returns the box of the files in the diagram: records read a second, lag, the number of
// files, and how many of them somebody has to mend. t has the sums over all inputs.
func filesStage(s *Status, t sums) Stage {
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
	out := Stage{Name: "Files", Figure: RateText(s.Rates.Read), Of: "records read", Brief: "read", Fill: -1,
		Notes: []string{BytesText(t.Lag) + " behind", number(files, "file", "files")}}
	if unreadable > 0 {
		out.Tone = "bad"
		out.Notes = append(out.Notes, number(unreadable, "file needs", "files need")+" a person")
	}
	return out
}

// requestsStage returns the box of the requests in the diagram: how many are in flight, how many
// may be, the mean time from read to accepted, and how many routes retry.
func requestsStage(s *Status) Stage {
	under, most := 0, 0
	for _, c := range s.Clusters {
		under += c.InFlight
		most += c.Concurrency
	}
	out := Stage{Name: "Requests", Figure: fmt.Sprint(under), Of: "in flight", Brief: "in flight", Fill: part(int64(under), int64(most))}
	if most > 0 {
		out.Of = fmt.Sprintf("of %d in flight", most)
		out.Brief = out.Of
	}
	if s.Rates.Delay > 0 {
		out.Notes = append(out.Notes, secondsText(s.Rates.Delay)+" from read to accepted")
	}
	if retrying := routeStates(s.Routes)[Retrying]; retrying > 0 {
		out.Tone = "wait"
		out.Notes = append(out.Notes, number(retrying, "route", "routes")+" trying again")
	}
	return out
}

// serviceStage returns the box of the service in the diagram: records and bytes accepted a second,
// records accepted since the start, and routes that are held or down. t has the sums over all
// inputs.
func serviceStage(s *Status, t sums) Stage {
	out := Stage{Name: "Service", Figure: RateText(s.Rates.Accepted), Of: "records accepted", Brief: "accepted", Fill: -1,
		Notes: []string{BytesText(int64(s.Rates.Bytes)) + "/s", CountText(t.Accepted) + " since the start"}}
	count := routeStates(s.Routes)
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

// spoolStage returns the box of the spool in the diagram: how many records wait in it, and how full
// it is. If the spool is switched off, the box says so.
func spoolStage(s *Status, t sums) Stage {
	if s.Spool == nil {
		return Stage{Name: "Spool", Figure: "off", Of: "the files are the buffer", Fill: -1}
	}
	out := Stage{Name: "Spool", Figure: CountText(t.Spooled), Of: unit(t.Spooled, "record waits", "records wait") + " on disk", Brief: unit(t.Spooled, "waits", "wait")}
	out.keeps(s.Spool.Bytes, s.Spool.MaxBytes, s.Spool.Payloads > 0, s.Spool.Error)
	return out
}

// keeps fills in the box of the spool or of quarantine: its fill level, a note with its size, and
// its tone. bytes is its size, most the largest size allowed (0: no bound). some says that it holds
// records, failed is the error why it takes no more, or "".
func (st *Stage) keeps(bytes, most int64, some bool, failed string) {
	st.Fill, st.Notes = part(bytes, most), []string{BytesText(bytes) + " kept"}
	if most > 0 {
		st.Notes = []string{BytesText(bytes) + " of " + BytesText(most)}
	}
	switch {
	case failed != "" || st.Fill >= nearlyFull:
		st.Tone = "bad"
	case some:
		st.Tone = "wait"
	}
}

// part returns which part of the bound most n is, from 0 to 1; -1 if most is 0, which means no
// bound.
func part(n, most int64) float64 {
	if most <= 0 {
		return -1
	}
	return min(max(float64(n)/float64(most), 0), 1)
}

// unit returns the word for n things, singular or plural, without the number.
func unit(n uint64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
