package format_test

import (
	"fmt"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// A scanner finds whole records in what was read so far, rejects what is not sound, and
// says from where on more data is needed.
func ExampleScanner_Scan() {
	s, err := format.New(format.Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20})
	if err != nil {
		panic(err)
	}
	data := []byte("{\"a\":1}\n{\"a\":}\n{\"a\":3}\n{\"a\":")
	var c format.Chunk
	s.Scan(data, 0, false, 0, &c)
	fmt.Printf("%d records: %q\n", c.Records, c.Body)
	for _, r := range c.Rejected {
		fmt.Printf("rejected at %d, %s: %s\n", r.Start, r.Reason, r.Message)
	}
	fmt.Println("goes on at", c.Consumed)
	// Output:
	// 2 records: "{\"a\":1}\n{\"a\":3}\n"
	// rejected at 8, malformed: column 6: unexpected '}' in or instead of a value
	// goes on at 23
}

// Lines of an access log become JSON.
func ExampleScanner_Scan_combined() {
	s, err := format.New(format.Options{Format: record.JSON, Parse: format.ParseCombined, MaxRecord: 1 << 20})
	if err != nil {
		panic(err)
	}
	data := []byte(`192.0.2.7 - - [22/Nov/2026:10:00:00 +0100] "GET /health HTTP/1.1" 200 2 "-" "curl/8.5.0"` + "\n")
	var c format.Chunk
	s.Scan(data, 0, true, 0, &c)
	fmt.Printf("%s", c.Body)
	// Output:
	// {"remote_addr":"192.0.2.7","time":"2026-11-22T10:00:00+01:00","method":"GET","path":"/health","protocol":"HTTP/1.1","status":200,"bytes":2,"user_agent":"curl/8.5.0"}
}
