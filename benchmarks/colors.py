"""Colors of the plots."""

OUR_COLOR, PEER_COLOR, LIMIT_COLOR = "#1f5fbf", "#a9b0bb", "#c0392b"

# Of peers that are told apart.
PEER_COLORS = ("#d1741f", "#4c9a5b", "#8e5ea2", "#7f8c99")
