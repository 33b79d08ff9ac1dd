package agent

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"kusto-agent/internal/recovery"
	"kusto-agent/tail"
)

// TestErrorsOfSources: what tail says of a source is what recovery hears.
func TestErrorsOfSources(t *testing.T) {
	for is, as := range map[error]error{
		tail.ErrSourceGone: recovery.ErrGone, tail.ErrReshaped: recovery.ErrReshaped, tail.ErrNotConfigured: recovery.ErrNotConfigured,
		os.ErrPermission: os.ErrPermission,
	} {
		if err := sourceErr(fmt.Errorf("read: %w", is)); !errors.Is(err, as) || !errors.Is(err, is) || err.Error() != "read: "+is.Error() {
			t.Errorf("%v becomes %v", is, err)
		}
	}
	if err := sourceErr(nil); err != nil {
		t.Error(err)
	}
}
