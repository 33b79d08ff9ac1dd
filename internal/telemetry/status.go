package telemetry

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/ledger"
)

// States of the agent.
const (
	Starting = "starting"
	Running  = "running"
	Stopping = "stopping"
)

// States of a route or a cluster.
const (
	Up       = "up"
	Retrying = "retrying" // the last attempt failed, and patience is not over
	Down     = "down"     // wanted, and none accepted for as long as patience lasts
	Held     = "held"     // refused for a cause that a person has to mend
)

// Status is what the agent is doing at one instant: the document at
// /api/v1/status, and what the page and the status command show. It holds no
// records and no secrets. Times that are not known are left out.
//
// Whoever provides it owns nothing of it afterwards. Time, Host, UptimeSeconds, the
// headline, rates, books, file counts and lag of the inputs, the tables, and the problems that
// follow from the rest are filled in by the server.
type Status struct {
	Version       string         `json:"version"`
	Host          string         `json:"host"`
	Time          time.Time      `json:"time,omitzero"` // of this status
	Started       time.Time      `json:"started,omitzero"`
	UptimeSeconds float64        `json:"uptime_seconds"` // without the time for which the machine slept
	State         string         `json:"state"`          // Starting, Running or Stopping
	Headline      Headline       `json:"headline"`
	Rates         Rates          `json:"rates"`
	Problems      []string       `json:"problems"`
	Inputs        []Input        `json:"inputs"`
	Tables        []Table        `json:"tables"`
	Routes        []Route        `json:"routes"`
	Clusters      []Cluster      `json:"clusters"`
	Files         []File         `json:"files"`
	Idle          map[string]int `json:"-"` // how many idle files of an input are not in Files
	KnownBytes    int64          `json:"-"` // memory taken by what is known of files, about
	Watch         Watch          `json:"watch"`
	Journal       Journal        `json:"journal"`
	Quarantine    Quarantine     `json:"quarantine"`
	Spool         *Spool         `json:"spool,omitempty"` // nil: there is no spool
	Config        Loaded         `json:"config"`
	LogMissing    uint64         `json:"log_lines_missing,omitempty"` // dropped, which the log could not say yet
}

// Headline is the state of the whole in one sentence.
type Headline struct {
	Tone string `json:"tone"` // good, wait or bad
	Text string `json:"text"`
}

// Input is one input of the configuration and its books in this run. An input
// that a reload took away is still listed, by name alone, for its books.
type Input struct {
	Name     string         `json:"name"`
	Cluster  string         `json:"cluster"` // its name in the configuration
	Database string         `json:"database"`
	Table    string         `json:"table"`
	Format   string         `json:"format"`
	Mapping  string         `json:"mapping,omitempty"`
	Books    ledger.Books   `json:"books"`
	Files    map[string]int `json:"files"` // how many, by state
	LagBytes int64          `json:"lag_bytes"`
	Pinned   int64          `json:"pinned_deleted_bytes"` // on disk only because deleted files are held open
}

// Table is how the records for a table ended in this run, in whatever cluster and
// whichever format. What all tables got is what all inputs ended.
type Table struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	ledger.Ends
}

// Route is one destination and how it fares.
type Route struct {
	Cluster      string    `json:"cluster"` // its name in the configuration, or its URL
	Database     string    `json:"database"`
	Table        string    `json:"table"`
	Format       string    `json:"format"`
	Mapping      string    `json:"mapping,omitempty"`
	State        string    `json:"state"`          // Up, Retrying, Down or Held
	Hold         *Hold     `json:"hold,omitempty"` // why it is not Up, where that is known
	Queued       int       `json:"queued"`         // payloads waiting
	InFlight     int       `json:"in_flight"`      // payloads being sent
	Spooled      int       `json:"spooled"`        // payloads that rest in the spool
	FailingAlone int       `json:"failing_alone"`  // of these and those in hand: payloads that fail while others are accepted
	Accepted     uint64    `json:"accepted"`       // records, in this run
	LastAccepted time.Time `json:"last_accepted,omitzero"`
}

// FormatText returns the format and, if there is one, the mapping, such as "JSON by App_json".
func (r Route) FormatText() string {
	if r.Mapping == "" {
		return Printable(r.Format)
	}
	return Printable(r.Format) + " by " + Printable(r.Mapping)
}

// Hold is why a route or a cluster does not deliver, in the service's words, and what
// a person can do about it.
type Hold struct {
	Since    time.Time `json:"since,omitzero"`
	Code     string    `json:"code,omitempty"`
	Message  string    `json:"message"`
	Fix      string    `json:"fix,omitempty"`
	Activity string    `json:"activity,omitempty"` // what support asks for
	NextTry  time.Time `json:"next_try,omitzero"`
}

// Cluster is one engine the agent talks to.
type Cluster struct {
	Name         string    `json:"name"`
	URL          string    `json:"url"`
	State        string    `json:"state"`          // Up, Retrying, Down or Held
	Hold         *Hold     `json:"hold,omitempty"` // why it is not Up, where that is known
	Concurrency  int       `json:"concurrency"`    // requests it may have under way now
	InFlight     int       `json:"in_flight"`
	TokenExpires time.Time `json:"token_expires,omitzero"` // zero: no token in hand
}

// File is one file an input reads. Offsets are in bytes of the file.
type File struct {
	Input       string `json:"input"`
	ID          string `json:"id"`
	Generation  uint32 `json:"generation"`
	Path        string `json:"path"`
	Size        int64  `json:"size"`
	Read        int64  `json:"read"`         // read up to here
	Safe        int64  `json:"safe"`         // everything before this is safe
	BehindBytes int64  `json:"behind_bytes"` // in the file, not yet safe
	// BehindSeconds is for how long at least the oldest of these bytes is there.
	BehindSeconds float64 `json:"behind_seconds"`
	Pinned        int64   `json:"pinned_bytes,omitempty"` // of a deleted file: on disk only because it is held open
	State         string  `json:"state"`
	Why           string  `json:"why,omitempty"` // what keeps it from going on
	Fix           string  `json:"fix,omitempty"`
}

// Watch is whether the kernel tells of changes in the folders of the files.
type Watch struct {
	Error string `json:"error,omitempty"` // why not of all, which are polled then; empty: it does, or is not asked to
	Fix   string `json:"fix,omitempty"`
}

// Journal is the health of the state disk as the journal meets it.
type Journal struct {
	Bytes    int64     `json:"bytes"`
	LastSync time.Time `json:"last_sync,omitzero"`
	Error    string    `json:"error,omitempty"` // empty: healthy
	Since    time.Time `json:"since,omitzero"`  // when Error began
}

// Quarantine is where refused records are kept, and whether they can be.
type Quarantine struct {
	Bytes    int64     `json:"bytes"`
	MaxBytes int64     `json:"max_bytes"`
	Dropped  uint64    `json:"dropped_records"` // removed to make room, in this run
	Error    string    `json:"error,omitempty"` // empty: it keeps records
	Fix      string    `json:"fix,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when Error began
}

// Spool is what waits on disk for the service to come back.
type Spool struct {
	Dir      string    `json:"dir"` // its folder, which spool.dir need not be any more since a reload
	Bytes    int64     `json:"bytes"`
	MaxBytes int64     `json:"max_bytes"`
	Payloads int       `json:"payloads"`
	Oldest   time.Time `json:"oldest,omitzero"` // when its oldest payload was put there
	Error    string    `json:"error,omitempty"` // why it takes no more; empty: it does
}

// Loaded tells of the last time the configuration was read.
type Loaded struct {
	File  string    `json:"file"` // its path, from the root
	Time  time.Time `json:"time,omitzero"`
	Error string    `json:"error,omitempty"` // why the last reload changed nothing; empty: it is in force
	// Restart is the keys that were changed and are not in force before a restart.
	Restart []string `json:"restart,omitempty"`
}

// uptime is UptimeSeconds as a duration.
func (s *Status) uptime() time.Duration { return time.Duration(s.UptimeSeconds * float64(time.Second)) }

// StartedText returns for how long the agent has run, such as "5m 3s ago". Unlike the difference
// between Clock and Started, that is not changed when the clock of its machine is set.
func (s *Status) StartedText() string { return AgoText(s.Started.Add(s.uptime()), s.Started) }

// Clock returns the time of the status by the clock of the agent's machine, as all other times in it
// are. It is an approximation for the status of an earlier version, which does not have it.
func (s *Status) Clock() time.Time {
	if s.Time.IsZero() {
		return s.Started.Add(s.uptime())
	}
	return s.Time
}

// complete fills in what the agent leaves to the server: time, host, uptime, the books of inputs and
// tables from one snapshot of the ledger l, lag, problems and headline. Files are sorted by lag,
// the largest first.
func (s *Status) complete(version string, l *ledger.Ledger, now time.Time) {
	s.Host, _ = os.Hostname() // if that fails the page shows no host
	s.Version = cmp.Or(s.Version, version)
	s.State = cmp.Or(s.State, Starting)
	s.Time = now
	if !s.Started.IsZero() {
		s.UptimeSeconds = now.Sub(s.Started).Round(time.Millisecond).Seconds()
	}
	books, tables := l.Report()
	s.tellInputs(books)
	s.tellTables(tables)
	s.tellProblems()
	slices.SortStableFunc(s.Files, func(a, b File) int { return cmp.Compare(b.BehindBytes, a.BehindBytes) })
	s.Routes, s.Clusters, s.Files = orEmpty(s.Routes), orEmpty(s.Clusters), orEmpty(s.Files)
	s.Headline.Tone, s.Headline.Text = verdict(s, sumUp(s))
}

// tellTables sets s.Tables: how many records and bytes of each table were accepted, quarantined and
// dropped, sorted by name.
func (s *Status) tellTables(tables map[ledger.Table]ledger.Ends) {
	s.Tables = make([]Table, 0, len(tables))
	for t, e := range tables {
		s.Tables = append(s.Tables, Table{t.Database, t.Table, e})
	}
	slices.SortFunc(s.Tables, func(a, b Table) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Table, b.Table))
	})
}

// tellInputs sets for each input in s.Inputs its books, how many files it has in each state, and
// the sums of their lag and of deleted bytes still held on disk. An input that is no longer
// configured but has books is added with its name alone.
func (s *Status) tellInputs(books map[string]ledger.Books) {
	s.Inputs = slices.Clone(orEmpty(s.Inputs))
	at := make(map[string]int, len(s.Inputs))
	for i := range s.Inputs {
		at[s.Inputs[i].Name] = i
	}
	for _, name := range slices.Sorted(maps.Keys(books)) {
		if _, known := at[name]; !known {
			at[name] = len(s.Inputs)
			s.Inputs = append(s.Inputs, Input{Name: name})
		}
	}
	for i := range s.Inputs {
		in := &s.Inputs[i]
		in.Books, in.Files, in.LagBytes, in.Pinned = books[in.Name], map[string]int{}, 0, 0
	}
	for name, n := range s.Idle {
		if i, known := at[name]; known && n > 0 {
			s.Inputs[i].Files["idle"] += n
		}
	}
	for _, f := range s.Files {
		if i, known := at[f.Input]; known {
			s.Inputs[i].Files[f.State]++
			s.Inputs[i].LagBytes += f.BehindBytes
			s.Inputs[i].Pinned += f.Pinned
		}
	}
}

// tellProblems adds to s.Problems a sentence for each thing that is wrong by the rest of the
// status: reload, watching of folders, disks, quarantine, log and books. Routes that do not deliver
// are not among them; they have the reason in their Hold.
func (s *Status) tellProblems() {
	s.Problems = slices.Clone(orEmpty(s.Problems))
	add := func(format string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(format, args...)) }
	if s.Config.Error != "" {
		add("the last reload changed nothing: %s", s.Config.Error)
	}
	if keys := s.Config.Restart; len(keys) > 0 {
		add("changed in the configuration, and in force after a restart of the agent: %s", strings.Join(keys, ", "))
	}
	if s.Watch.Error != "" {
		add("%s. What to do: %s", s.Watch.Error, s.Watch.Fix)
	}
	if s.Journal.Error != "" {
		add("state disk: %s; delivery continues, after a crash more records may be sent twice", s.Journal.Error)
	}
	if s.Spool != nil && s.Spool.Error != "" {
		add("spool: %s; payloads that cannot be sent stay in memory and in their files", s.Spool.Error)
	}
	if s.Quarantine.Error != "" {
		add("%s; what meets a bad record waits in its file. What to do: %s", s.Quarantine.Error, s.Quarantine.Fix)
	}
	if s.LogMissing > 0 {
		add("log: %s missing, its reader does not take them; see to what reads the agent's stderr", number(int(s.LogMissing), "line is", "lines are"))
	}
	for _, in := range s.Inputs {
		if err := in.Books.Check(); err != nil {
			add("input %s: %v; please report this", in.Name, err)
		}
	}
}

// orEmpty returns list, or an empty list for nil, so that JSON has [] and never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
