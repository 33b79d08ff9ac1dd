package tail

import (
	"errors"
	"fmt"
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/sources"
)

// Why a payload cannot be read again.
var (
	ErrSourceGone    = reread.ErrSourceGone
	ErrReshaped      = reread.ErrReshaped
	ErrNotConfigured = reread.ErrNotConfigured
)

// Anew is what the ranges of a payload hold by the settings that are in force.
type Anew = reread.Anew

func (t *Tailer) again() reread.Reader { return reread.Reader{Files: originals{t, sources.NewLook()}} }

// ReadSpans see reread.Reader.Spans.
func (t *Tailer) ReadSpans(p *record.Payload) ([]byte, error) { return t.again().Spans(p) }

// ReadAnew see reread.Reader.Anew.
func (t *Tailer) ReadAnew(p *record.Payload) (*Anew, error) { return t.again().Anew(p) }

// Divide see reread.Reader.Divide.
func (t *Tailer) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	return t.again().Divide(p)
}

// Restore see reread.Reader.Restore.
func (t *Tailer) Restore(p *record.Payload, recs []record.Rejected) error {
	return t.again().Restore(p, recs)
}

// originals finds the files that a payload was made of: however many are gone, the others that may hold what
// they held are looked at once.
type originals struct {
	t    *Tailer
	look *sources.Look
}

// search is how files of the input are found again.
func (in *input) search(look *sources.Look) sources.Search {
	return sources.Search{Folders: &in.folders, Spec: &in.Spec, Look: look}
}

// Open is for reread.Files. It tries the file itself, the descriptor of its reader, and a compressed
// copy beside it.
func (o originals) Open(x record.Extent) (reread.Source, error) {
	of, err := o.t.rememberedOf(x.File)
	if err != nil {
		return nil, err
	}
	var f reread.Source
	in := of.in.search(o.look)
	if of.unnamed {
		f, err = o.t.findUnnamed(in, x)
	} else {
		f, err = in.Open(of.info, x, of.copies)
	}
	if errors.Is(err, ErrSourceGone) && of.info.Packed.Size == 0 {
		if held := o.t.heldOpen(x); held != nil {
			return held, nil
		}
	}
	if errors.Is(err, ErrSourceGone) && x.Mark != 0 {
		if z := in.OpenPackedBeside(of.info, x); z != nil {
			return z, nil
		}
	}
	return f, err
}

// Holds is for reread.Files.
func (originals) Holds(f reread.Source, x record.Extent) error { return sources.Holds(f, x) }

// Of is for reread.Files.
func (o originals) Of(f record.File) (reread.Remembered, error) {
	of, err := o.t.rememberedOf(f)
	if err != nil {
		return reread.Remembered{}, err
	}
	return reread.Remembered{In: of.in.Compiled, Info: of.info, Former: of.former}, nil
}

// Redacting is for reread.Files.
func (o originals) Redacting(input string) *settings.Compiled {
	if in, _ := o.t.inputOf(input); in != nil && in.Redacts() {
		return in.Compiled
	}
	return nil
}

// heldOpen returns the file of an extent by the descriptor of its reader: if the file was
// deleted there is no other way. Nil: no reader has it, or its bytes have changed.
func (t *Tailer) heldOpen(x record.Extent) *os.File {
	of, err := t.rememberedOf(x.File)
	if err != nil || of.held == nil {
		return nil
	}
	f := inode.Second(of.held)
	if f != nil && sources.Holds(f, x) != nil {
		f.Close()
		return nil
	}
	return f
}

// remembered is what is known of a file, and the input it is of.
type remembered struct {
	file   record.File
	named  bool   // there is an input of that name, or was
	in     *input // nil: nothing is known of the file
	info   record.FileInfo
	former bool // the input is no longer configured
	copies bool // so much was read that a copy is taken for what it is; of less, it is read from its start

	unnamed bool     // its file is known by its id alone, see claim
	held    *os.File // that its reader has open, and may close at any time; nil: none, or the file is compressed
}

// rememberedOf returns what is remembered of the file f and of its input. The error is
// ErrNotConfigured if no input, also no removed one, has the name, and ErrSourceGone if nothing is
// known of the file.
func (t *Tailer) rememberedOf(f record.File) (remembered, error) {
	of := remembered{file: f}
	t.on(&of)
	switch {
	case of.in != nil:
		return of, nil
	case !of.named:
		return remembered{}, fmt.Errorf("%w: %s", ErrNotConfigured, f.Input)
	}
	return remembered{}, fmt.Errorf("%w: nothing is remembered of the file", ErrSourceGone)
}

func (of *remembered) happen(t *Tailer) {
	for in := range t.everyInput {
		of.named = of.named || in.Name == of.file.Input
		k := in.known.Get(of.file)
		if k == nil {
			continue
		}
		now, there := t.inputOf(in.Name)
		of.in, of.info, of.former = in, k.info.Info(), now != in || !there
		of.copies, of.unnamed = k.candidate(t.scans.no).End() >= identity.Enough, k.isUnnamed()
		if r := k.reader; r != nil && r.z == nil {
			of.held = r.f
		}
		return
	}
}

// Shaped returns nil if the inputs of a payload have the same route and shaping as when it
// was made, ErrReshaped if one has changed, and ErrNotConfigured if one is missing. It
// does not look at files.
func (t *Tailer) Shaped(p *record.Payload) error {
	var other error
	for _, x := range p.Cover {
		in, there := t.inputOf(x.File.Input)
		switch {
		case in == nil, !there && !in.IsShaped(p):
			return fmt.Errorf("%w: %s", ErrNotConfigured, x.File.Input)
		case !in.IsShaped(p):
			other = fmt.Errorf("%w: %s", ErrReshaped, in.Name)
		}
	}
	return other
}

// inputOf returns the input of this name, and whether it is still configured (there). nil: there
// was none in this run.
func (t *Tailer) inputOf(name string) (in *input, there bool) {
	now := t.configured.Load()
	for _, in := range now.inputs {
		if in.Name == name {
			return in, true
		}
	}
	return now.former[name], false
}
