"""The five games of MinAtar (Young and Tian, 2019), written from their rules."""
