package tail

import "kusto-agent/tail/internal/tap"

// A Tap shows the records of some inputs as they are handed over, and Passed is one of these.
type (
	Tap    = tap.Tap
	Passed = tap.Passed
)

// MaxTaps is how many taps there can be at a time.
const MaxTaps = tap.Most

// ErrTaps says that there are MaxTaps taps already.
var ErrTaps = tap.ErrTooMany

// Tap opens a tap on the records of these inputs; a name that no input has gives no records. The
// error is ErrTaps if too many taps are open. The caller closes the tap.
func (t *Tailer) Tap(inputs ...string) (*Tap, error) { return t.taps.Open(inputs...) }

// Inputs returns the inputs of the tailer as they were configured, in their order.
func (t *Tailer) Inputs() (all []Input) {
	for _, in := range t.inputs() {
		all = append(all, in.Input)
	}
	return all
}
