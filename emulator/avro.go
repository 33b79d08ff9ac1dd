package emulator

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"time"
	"unicode/utf8"

	"github.com/twmb/avro/ocf"

	"kusto-agent/emulator/internal/kql"
)

// avroRecords reads an Avro object container file and passes each record to emit as a JSON object,
// until emit returns false; a nil emit only counts. Its error is always *badData: one block that
// cannot be read makes the whole body invalid.
func avroRecords(body []byte, emit func(raw []byte) bool) (t tally, _ error) {
	bad := func(err error) error {
		return &badData{"BadRequest_InvalidBlob", "The Avro stream is invalid: " + err.Error()}
	}
	r, err := ocf.NewReader(bytes.NewReader(body))
	if err != nil {
		return t, bad(err)
	}
	defer r.Close()
	for {
		var value any
		switch err := r.Decode(&value); {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return t, bad(err)
		}
		row, ok := value.(map[string]any)
		if !ok {
			return t, bad(errors.New("its schema is not that of a record"))
		}
		t.rows++
		if emit != nil && !emit(kql.JSON(plain(row))) {
			return t, nil
		}
	}
}

// plain converts a decoded Avro value to one that encoding/json can write: times as RFC 3339,
// durations as timespans, decimals as text, bytes as text where they are valid UTF-8 and else
// in base64, NaN and infinities as text. Maps and lists are changed in place.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case float32:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(v)
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return base64.StdEncoding.EncodeToString(v)
	case [16]byte: // a UUID
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration, *big.Rat:
		return kql.Written(v, "")
	case fmt.Stringer:
		return v.String()
	}
	return value
}
