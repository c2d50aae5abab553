# Writes the sequences of this example: random letters, and in most of them, at a random place, the
# motif that the job has to find. The same numbers come out everywhere: the generator is the one below.
#
#   awk -f make_sequences.awk > sequences.txt

function random(below) {
    state = (state * 69069 + 12345) % 2147483648
    return int(state / 65536) % below
}

BEGIN {
    state = 20260101
    letters = "ACGT"
    for (number = 1; number <= 240; number++) {
        sequence = ""
        for (at = 0; at < 180; at++) sequence = sequence substr(letters, random(4) + 1, 1)
        if (random(10) < 8) {
            at = random(170)
            sequence = substr(sequence, 1, at) "TATAAT" substr(sequence, at + 7)
        }
        printf "seq%03d %s\n", number, sequence
    }
}
