package preview

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

// beforeAfter shows what an input makes of the records of one file, from its
// beginning: how records are, and how they are sent.
type beforeAfter struct {
	*Preview
	in    *config.Input
	path  string
	seen  map[string]bool  // fates of records that were shown
	more  bool             // a record was printed: an empty line comes before the next
	shown []map[string]any // documents of the records, for JSON
}

// textWidth is how many characters a printed line has at most.
const textWidth = 80

// textLines is how many lines of a record are shown.
const textLines = 6

// beforeAfter reads one file as the input reads it, but from its beginning and sending nothing:
// v.File, or else the newest file of the input. It prints the first records before and after, and
// counts for the whole file. Its errors have exit codes, except those of writing.
func (v *Preview) beforeAfter(ctx context.Context, in *config.Input) error {
	b := &beforeAfter{Preview: v, in: in, path: v.File, seen: make(map[string]bool), shown: []map[string]any{}}
	if b.path == "" {
		files, err := pipeline.Newest(in)
		if err != nil {
			return cannotRead(err)
		}
		if len(files) == 0 {
			return exit.With(exit.Failed, fmt.Errorf("no file matches the paths of input %s, or they are empty; name a sample with --file", in.Name))
		}
		b.path = files[0]
	}
	f, err := os.Open(b.path)
	if err != nil {
		return cannotRead(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return exit.Usagef("%q is a folder; name a file with --file", b.path)
	}
	trial, err := pipeline.NewTrial(in, b.path, b.record)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if !v.JSON {
		fmt.Fprintf(v.Out, "%s, as input %s reads it\n\n", telemetry.Printable(b.path), telemetry.Printable(in.Name))
	}
	if err := trial.Run(ctx, f); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("read %q: %w", b.path, err))
	}
	if v.JSON {
		return v.Out.JSON(map[string]any{"input": in.Name, "file": b.path, "records": b.shown, "counts": trial.Counts})
	}
	return b.sum(&trial.Counts)
}

// cannotRead returns err, of opening a file or looking for one, with its exit code and with what to
// do.
func cannotRead(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usagef("%w; name another file with --file", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; run it as root or as the agent's user, or name another file with --file", err)
	}
	return exit.With(exit.Failed, err)
}

// record is called for each record of the file. It prints the record, or keeps it for the JSON
// document, if it is one of the first b.Records or the first with one of its fates (what becomes of
// a record).
func (b *beforeAfter) record(one *pipeline.Tried) error {
	isNew := false
	for _, fate := range fates(one) {
		isNew = isNew || !b.seen[fate]
		b.seen[fate] = true
	}
	b.Records--
	switch {
	case b.Records < 0 && !isNew:
	case b.JSON:
		b.shown = append(b.shown, b.document(one))
	default:
		b.show(one)
	}
	return nil
}

// fates returns in words what becomes of a record, such as "sent as it is" or "left out: blank".
// There can be several, since one record of the file can become several, or none.
func fates(one *pipeline.Tried) (all []string) {
	add := func(fate string) {
		if !slices.Contains(all, fate) {
			all = append(all, fate)
		}
	}
	if one.Message != "" {
		add("quarantine, " + string(one.Reason))
	}
	for _, reason := range one.LeftOut {
		add(leftOutBy(reason))
	}
	switch {
	case len(one.After) == 0:
	case len(one.ChangedBy) > 0:
		for _, rule := range one.ChangedBy {
			add("sent, changed by " + rule)
		}
	case one.Unparsed:
		add("sent, not as it should be")
	case one.Unchanged():
		add("sent as it is")
	default:
		add("sent")
	}
	return all
}

// leftOutBy returns in words why a record is not sent. reason is the one under which it is counted:
// a fixed word such as "blank", or the name of a rule.
func leftOutBy(reason string) string {
	switch reason {
	case "keep":
		return "left out: nothing in keep holds"
	case "unmatched":
		return "left out by on_error"
	case "blank", "header":
		return "left out: " + reason
	}
	return "left out by " + reason
}

// show prints a record: its offset and its fates, then its text in the file (-) and what is sent of
// it (+), or one text (=) if it is sent as it is. On a terminal what is sent is green, and the text
// in the file is yellow if it is only left out, otherwise red.
func (b *beforeAfter) show(one *pipeline.Tried) {
	style, head := "31", strings.Join(fates(one), "; ")
	switch {
	case one.Message != "":
		head += ": " + one.Message
	case len(one.After) == 0:
		style = "33"
	}
	if b.more {
		fmt.Fprintln(b.Out)
	}
	b.more = true
	for i, line := range console.Wrapped(fmt.Sprintf("at %d: %s", one.Start, telemetry.Printable(head)), textWidth-2) {
		if i == 0 {
			line = b.Out.Paint("1", line)
		} else {
			line = "  " + line
		}
		fmt.Fprintln(b.Out, line)
	}
	if one.Unchanged() {
		b.text("=", "", one.Before)
		return
	}
	b.text("-", style, one.Before)
	for _, after := range one.After {
		b.text("+", "32", after)
	}
}

// text prints the bytes of a record in lines of at most textWidth characters, after sign in the
// first line. It prints at most textLines lines and how many more there are. Control characters are
// quoted. style is a colour of Paint, or "".
func (b *beforeAfter) text(sign, style string, text []byte) {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, cutAt(telemetry.Printable(strings.TrimRight(line, "\r\n")), textWidth-4)...)
	}
	if len(lines) == 0 {
		lines = []string{""}
	}
	if more := len(lines) - textLines; more > 0 {
		lines = append(lines[:textLines], fmt.Sprintf("… %s more", units.Counted(more, "line")))
	}
	for i, line := range lines {
		if i > 0 {
			sign = " "
		}
		line = strings.TrimRight("  "+sign+" "+line, " ")
		if style != "" {
			line = b.Out.Paint(style, line)
		}
		fmt.Fprintln(b.Out, line)
	}
}

// cutAt cuts a line into pieces of at most width characters. An empty line is one empty piece.
func cutAt(text string, width int) (lines []string) {
	for utf8.RuneCountInString(text) > width {
		runes := []rune(text)
		lines, text = append(lines, string(runes[:width])), string(runes[width:])
	}
	return append(lines, text)
}

// document returns the JSON document of a record for --json: its place in the file, its bytes
// before and after, and what was done to it. Bytes that are not UTF-8 are in base64, under a name
// with "_base64".
func (b *beforeAfter) document(one *pipeline.Tried) map[string]any {
	doc := map[string]any{"offset": one.Start, "length": one.End - one.Start, "unchanged": one.Unchanged(), "unparsed": one.Unparsed}
	put := func(name string, text []byte) {
		if utf8.Valid(text) {
			doc[name] = string(text)
		} else {
			doc[name+"_base64"] = slices.Clone(text)
		}
	}
	put("before", one.Before)
	after, sound := []string{}, true
	for _, a := range one.After {
		after, sound = append(after, string(a)), sound && utf8.Valid(a)
	}
	if doc["after"] = after; !sound {
		delete(doc, "after")
		doc["after_base64"] = one.After
	}
	doc["left_out"], doc["changed_by"] = append([]string{}, one.LeftOut...), append([]string{}, one.ChangedBy...)
	if one.Message != "" {
		doc["quarantined"] = map[string]string{"reason": string(one.Reason), "message": one.Message}
	}
	return doc
}

// sum prints the counts n of the whole file: how many records were sent, changed, left out and
// quarantined, each with its share of all records and its reason.
func (b *beforeAfter) sum(n *pipeline.Counts) error {
	fmt.Fprintf(b.Out, "\n%s\n", b.Out.Paint("1", fmt.Sprintf("%s, %s", units.Counted(n.Read, "record"), telemetry.BytesText(n.BytesRead))))
	row := func(count int, what string) {
		share := 0.0
		if n.Read > 0 {
			share = 100 * float64(count) / float64(n.Read)
		}
		fmt.Fprintf(b.Out, "  %9d %5.1f%%  %s\n", count, share, telemetry.Printable(what))
	}
	row(n.Sent, fmt.Sprintf("sent, %s before gzip", telemetry.BytesText(n.BytesSent)))
	if n.Unchanged > 0 {
		row(n.Unchanged, "  as they are")
	}
	if n.Unparsed > 0 {
		row(n.Unparsed, "  not as parse or inner says, with the reason")
	}
	for _, rule := range slices.Sorted(maps.Keys(n.Changed)) {
		row(n.Changed[rule], "  changed by "+rule)
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Filtered)) {
		row(n.Filtered[reason], leftOutBy(reason))
	}
	for _, reason := range slices.Sorted(maps.Keys(n.Quarantined)) {
		row(n.Quarantined[reason], "quarantine, "+reason)
	}
	return nil
}
