package config

// inputTexts are the texts of the keys of an input.
var inputTexts = map[string]keyText{
	"inputs":         {about: "What is read, and where it goes: a list, one item for each set of files of one kind and one table.", without: "none; needed, here or in an included file", example: "[{paths: [/srv/app/*.json], table: App, mapping: App_json}]"},
	"inputs.name":    {about: "The name of the input in metrics, logs, state and commands. Each has a name of its own; positions are kept by it.", without: "the table", example: "app"},
	"inputs.paths":   {about: "Patterns of the files to read. ** matches folders.", without: "none; needed", example: "[/srv/app/*.json, '/srv/**/events.json']"},
	"inputs.exclude": {about: "Patterns of files that are not read though paths matches them. One without a slash is for the last name of the path alone.", without: "none", example: `["*.tmp"]`},

	"inputs.cluster":     {about: "The cluster to send to, by its name under clusters.", without: "default, the one of the top level", example: "default"},
	"inputs.database":    {about: "The database to send to.", without: "that of the cluster, else of the top level", example: "Logs"},
	"inputs.table":       {about: "The table to send to.", without: "none; needed", example: "App"},
	"inputs.mapping":     {about: "The ingestion mapping of the table, by name. JSON, MultiJSON, Avro and whatever parse makes need one; fields of the other formats go to columns by position.", without: "none", example: "App_json"},
	"inputs.format":      {about: "The format of the files, in any letter case.", without: "by the extension: .json .jsonl .ndjson JSON, .csv CSV, .tsv TSV, .psv PSV, .avro Avro, .txt .log TXT; JSON with parse", example: "MultiJSON"},
	"inputs.compression": {about: "How requests are compressed. auto: gzip, but none for Avro, which is compressed inside.", example: "none"},

	"inputs.start_at":            {about: "Where files are begun that exist when the input is first seen. Later files are read from their beginning in any case.", example: "end"},
	"inputs.ignore_older":        {about: "Files that have not changed for longer are left alone. 0s: none are.", example: "7d", least: "0s"},
	"inputs.max_record_size":     {about: "A longer record goes to quarantine; it is never sent cut. At most batch.max_size, which is also the default where it is smaller. Not for Avro.", example: "256KiB", least: "1", most: "4MB"},
	"inputs.header":              {about: "Delimited formats: skip drops the first record of every file, which the service would store as data.", example: "skip"},
	"inputs.validate":            {about: "Whether every record is checked against its format, so that bad ones go to quarantine alone, or none is.", example: "none"},
	"inputs.durability":          {about: "Where the copy is while a record is under way. file: in the file it came from. spool: in the spool before it is posted, for files that are truncated or vanish.", example: "spool"},
	"inputs.parse":               {about: "How each line, or event, becomes a JSON object, which needs a mapping. none: records are sent byte for byte.", example: "logfmt"},
	"inputs.on_error":            {about: "What becomes of a line that is not as parse says, where parse is combined. raw: it is sent as an object with the line and why. quarantine: it is set aside. drop: it is left out. Each is counted.", example: "quarantine"},
	"inputs.multiline":           {about: "Which lines are one event. Only with parse: text. It takes start or preset.", without: "every line is an event", example: "{preset: java}"},
	"inputs.multiline.start":     {about: "A regular expression, in RE2 syntax, of the first line of an event. Put it in single quotes.", without: "none; either this or preset is needed", example: `'^\d{4}-'`},
	"inputs.multiline.preset":    {about: "The stack traces of a language, in place of start.", without: "none", example: "java"},
	"inputs.multiline.max_lines": {about: "An event ends after so many lines.", example: "1000", least: "1"},
	"inputs.multiline.max_wait":  {about: "An event ends when no line came for this long.", example: "5s", least: "1ns"},
	"inputs.encoding":            {about: "The encoding of the files. What is sent is UTF-8.", example: "utf-16le"},
	"inputs.partial_line_wait":   {about: "A last line without a newline is sent, flagged, after this long without growth. 0s: it is held until its newline comes, or the file is gone. Not for Avro.", example: "30s", least: "0s"},
	"inputs.compressed":          {about: "Whether .gz and .zst files are read, where they go on with a file the agent knew or match paths.", example: "never"},
	"inputs.watch":               {about: "How new data is noticed. auto: by events and a rescan. poll: by looking, for file systems without events.", example: "poll"},
	"inputs.rotate_quiet":        {about: "A file that was rotated or deleted is let go after it was read to its end and did not grow for this long.", example: "30s", least: "0s"},
	"inputs.forget_after":        {about: "How long the positions of files that are gone are kept.", example: "7d", least: "0s"},
	"inputs.max_pinned_deleted":  {about: "The most bytes of the disk held by deleted files that are still being read. Above it the oldest is given up, and the log says what was lost.", example: "10GiB", least: "0"},
	"inputs.fields":              {about: "Members to add to every record of JSON and MultiJSON, and of parse. A value can hold {host}, {path}, {file}, {generation}, {offset}, {input} and {batch}; {{ is a brace. One that is {offset} or {generation} alone is a number.", without: "none", example: `{host: "{host}", offset: "{offset}"}`},
}
