#!/usr/bin/env bash
# scripts/words.sh [COMMIT]: finds words in a commit's new prose that readers stumble over, and sentences of more than 25 words. Without
# COMMIT it reads the last commit and uncommitted changes. Status 1 if it finds any.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 1 ]; then
    range=("$1~1" "$1")
else
    range=(HEAD~1)
fi
if ! git rev-parse -q --verify "${range[0]}^{commit}" >/dev/null; then
    echo "words: no commit before, so nothing to compare with" >&2
    exit 0
fi
# Skip tables that programs write, and other people's texts.
git diff -U0 --no-color --no-ext-diff "${range[@]}" -- '*.rs' '*.md' '*.sh' '*.py' '*.ts' '*.tsx' '*.mjs' \
    ':!docs/results' ':!docs/reference' ':!scripts/words.sh' | perl -e '
    use strict;
    my $most = 25;
    my @phrases = ("is told", "are told", "of which", "of what", "leaves out", "anew", "so many", "nobody", "somebody", "there in whole", "those of", "of its own");
    my $phrases = join "|", map { quotemeta } @phrases;
    my ($file, $line, $hits, $text, $begin) = ("", 0, 0, "", 0);
    sub flush_text {
        for my $sentence (split /(?<=[.!?:;])\s+/, $text) {
            my @words = grep { /\w/ } split /\s+/, $sentence;
            next if $sentence =~ /^\s*\|/;
            if (@words > $most) {
                print "$file:$begin: ", scalar(@words), " words: ", join(" ", @words[0..7]), " ...\n";
                $hits++;
            }
        }
        $text = "";
    }
    while (<STDIN>) {
        chomp;
        if (m{^\+\+\+ b/(.*)}) { flush_text(); $file = $1; next; }
        if (/^@@ .*\+(\d+)/) { flush_text(); $line = $1 - 1; next; }
        next unless s/^\+//;
        $line++;
        my $prose;
        if ($file =~ /\.md$/) { $prose = $_; }
        elsif ($file =~ /\.(sh|py)$/) { ($prose) = /^\s*#(?!!)\s*(.*)/; }
        else { ($prose) = m{^\s*//[/!]?\s*(.*)}; }
        if (!defined $prose || $prose =~ /^\s*(\||```|$)/) { flush_text(); next; }
        if ($prose =~ /\b($phrases)\b/i) { print "$file:$line: \"$1\"\n"; $hits++; }
        # A line of Markdown contains whole sentences.
        flush_text() if $file =~ /\.md$/;
        $begin = $line if $text eq "";
        $prose =~ s/`[^`]*`/code/g;
        $text .= ($text eq "" ? "" : " ") . $prose;
    }
    flush_text();
    exit($hits ? 1 : 0);
'
