// Package top shows a running agent live in a terminal, and changes nothing of it: it asks
// for the status document at an interval, over the way that the status command goes, and
// all else happens in the process of who watches.
package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"kusto-agent/internal/telemetry"
)

// Options are what a screen is made of. All are needed.
type Options struct {
	Fetch    func(context.Context) (*telemetry.Status, error) // asks the agent
	First    *telemetry.Status                                // what it answered before the screen began
	Interval time.Duration                                    // from an answer to the next question
}

// Run shows the status of the agent until the user quits or ctx ends; both are no error.
func Run(ctx context.Context, o Options) error {
	m := newModel(o.Interval, func() tea.Msg {
		s, err := o.Fetch(ctx)
		return answered{s, err}
	})
	m.take(o.First)
	if _, err := tea.NewProgram(m, tea.WithContext(ctx)).Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("show the agent: %w", err)
	}
	return nil
}

// Messages, beside the keys and the size of the window.
type (
	answered struct { // by the agent, or why not
		status *telemetry.Status
		err    error
	}
	due struct{} // for the next question
)

// model is what is shown. Its methods do no I/O: a message in, a new model and what is
// to be done out.
type model struct {
	every time.Duration
	ask   tea.Cmd

	width, height int
	list          list
	lists         [listCount]place
	opened        string // the key of the row that is shown alone; empty: none is
	typing        bool   // of the filter
	paused        bool

	now    *telemetry.Status   // the last answer
	past   []*telemetry.Status // those of the ten seconds before, the oldest first
	failed error               // why there was no answer to the last question
}

// list is what is listed.
type list int

const (
	routes list = iota
	files
	troubles
	listCount
)

// place is where somebody is in a list.
type place struct {
	cursor, top int
	sort        int // of orders
	reversed    bool
	filter      string // what its rows have to contain
}

func newModel(every time.Duration, ask tea.Cmd) *model {
	return &model{every: every, ask: ask, width: 80, height: 24}
}

// ratesOver is the time in seconds that the rates of routes and files are the mean of.
const ratesOver = 10

// take stores an answer of the agent as the one that is shown, and keeps those of the last ratesOver
// seconds for the rates. Answers from before a restart of the agent are dropped.
func (m *model) take(s *telemetry.Status) {
	if m.now != nil {
		m.past = append(m.past, m.now)
	}
	m.past = slices.DeleteFunc(m.past, func(p *telemetry.Status) bool {
		// The answer just before s is kept however old it is, so that there are rates at all.
		return !p.Started.Equal(s.Started) || s.UptimeSeconds-p.UptimeSeconds > ratesOver && p != m.now
	})
	m.now, m.failed = s, nil
}

// before returns the earlier answer that rates are computed from; nil if there is none.
func (m *model) before() *telemetry.Status {
	if len(m.past) == 0 {
		return nil
	}
	return m.past[0]
}

// Init has the next question asked when it is due.
func (m *model) Init() tea.Cmd { return m.wait() }

func (m *model) wait() tea.Cmd {
	return tea.Tick(m.every, func(time.Time) tea.Msg { return due{} })
}

// Update handles a key, a new size of the window, an answer of the agent, or the end of the wait for
// the next question. It returns the model and the command to run next; nil for none.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case answered:
		switch {
		case msg.err != nil:
			m.failed = msg.err
		case !m.paused: // an answer to a question from before the pause is dropped
			m.take(msg.status)
		}
		return m, m.wait()
	case due:
		if m.paused {
			return m, m.wait()
		}
		return m, m.ask
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// key carries out the command of a key, or passes it to the filter while that is typed. It returns
// tea.Quit for a key that ends the program, otherwise nil.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	if m.typing {
		m.typed(k)
		return nil
	}
	at := &m.lists[m.list]
	switch k.String() {
	case "q", "ctrl+c":
		return tea.Quit
	case "1", "2", "3":
		m.list, m.opened = list(k.String()[0]-'1'), ""
	case "tab", "right", "l":
		m.list, m.opened = (m.list+1)%listCount, ""
	case "shift+tab", "left", "h":
		m.list, m.opened = (m.list+listCount-1)%listCount, ""
	case "up", "k":
		at.cursor--
	case "down", "j":
		at.cursor++
	case "pgup":
		at.cursor -= m.room()
	case "pgdown":
		at.cursor += m.room()
	case "home", "g":
		at.cursor = 0
	case "end", "G":
		at.cursor = len(m.rows())
	case "enter":
		if rows := m.rows(); m.opened == "" && len(rows) > 0 {
			m.opened = rows[m.place(len(rows)).cursor].key
		}
	case "esc", "backspace":
		if m.opened == "" {
			at.filter = ""
		}
		m.opened = ""
	case "/":
		m.typing, m.opened = true, ""
	case "s":
		at.sort = (at.sort + 1) % len(orders[m.list])
	case "r":
		at.reversed = !at.reversed
	case "p", "space":
		m.paused = !m.paused
	}
	m.lists[m.list] = m.place(len(m.rows())) // the cursor stays within the list
	return nil
}

// typed changes the filter of the current list by a key: a character is added, enter keeps the filter
// and esc drops it. Afterwards the first row is selected.
func (m *model) typed(k tea.KeyPressMsg) {
	at := &m.lists[m.list]
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, at.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(at.filter)
		at.filter = at.filter[:len(at.filter)-n]
	default:
		at.filter += k.Text
	}
	at.cursor = 0
}

// place returns the current list's place with its cursor, the index of the selected row, and top, the
// index of the first row in the window, moved so that both fit a list of n rows. It stores nothing.
func (m *model) place(n int) place {
	at := m.lists[m.list]
	room := m.room()
	at.cursor = max(0, min(at.cursor, n-1))
	at.top = max(0, min(at.top, at.cursor, n-room))
	if at.cursor >= at.top+room {
		at.top = at.cursor - room + 1
	}
	return at
}

// row is one of a list.
type row struct {
	key    string
	cells  []string
	state  string // gives the colour
	sorted []float64
	name   string
	detail []string
}

// rows returns the rows of the current list, filtered and sorted as the user has chosen. A list of
// errors stays in the order of the agent.
func (m *model) rows() []row {
	var all []row
	switch m.list {
	case routes:
		all = routeRows(m.now, m.before())
	case files:
		all = fileRows(m.now, m.before())
	case troubles:
		all = troubleRows(m.now)
	}
	at := m.lists[m.list]
	if at.filter != "" {
		text := strings.ToLower(at.filter)
		all = slices.DeleteFunc(all, func(r row) bool {
			return !strings.Contains(strings.ToLower(r.name+" "+r.state+" "+strings.Join(r.cells, " ")), text)
		})
	}
	slices.SortStableFunc(all, func(a, b row) int {
		c := 0
		if at.sort < len(a.sorted) { // by a number, the greatest first
			c = cmp.Compare(b.sorted[at.sort], a.sorted[at.sort])
		} else if len(a.sorted) > 0 { // the last order is by name
			c = strings.Compare(a.name, b.name)
		}
		if at.reversed {
			return -c
		}
		return c
	})
	return all
}
